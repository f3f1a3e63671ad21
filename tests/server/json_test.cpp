#include "server/json.h"

#include <gtest/gtest.h>

#include <chrono>

#include "server/field_reader.h"
#include "server/limits.h"

namespace tempo9::server {
namespace {

std::string dumped(std::string body) {
  const auto document = parse_json_object(std::move(body));
  return document ? dump_json(*document) : "error: " + document.error().message();
}

TEST(Json, KeepsTheClientsKeyOrder) {
  EXPECT_EQ(dumped(R"({"z":1,"a":{"y":2,"b":3},"m":[{"k":1,"c":2}]})"),
            R"({"z":1,"a":{"y":2,"b":3},"m":[{"k":1,"c":2}]})");
}

TEST(Json, LastOfEqualKeysWins) {
  EXPECT_EQ(dumped(R"({"a":1,"b":2,"a":{"x":3}})"), R"({"a":{"x":3},"b":2})");
  std::string large = "{";
  for (int i = 0; i < 100; ++i) large += "\"k" + std::to_string(i) + "\":0,";
  large += R"("k3":3,"k99":99,"new":1,"new":2})";
  const auto document = parse_json_object(large);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->size(), 101u);
  EXPECT_EQ((*document)["k3"], 3);
  EXPECT_EQ((*document)["k99"], 99);
  EXPECT_EQ((*document)["new"], 2);
}

TEST(Json, AnObjectOfManyKeysIsReadInLinearTime) {
  std::string body = "{";
  for (int i = 0; i < 100'000; ++i) body += "\"key" + std::to_string(i) + "\":1,";
  body += "\"end\":1}";
  const auto start = std::chrono::steady_clock::now();
  const auto document = parse_json_object(body);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->size(), 100'001u);
  // Walking all keys for each would be 5e9 comparisons: a minute.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Json, AnObjectOfTooManyKeysIsRefused) {
  std::string body = "{";
  for (size_t i = 0; i <= kMaxJsonKeys; ++i) body += "\"" + std::to_string(i) + "\":1,";
  body += "\"end\":1}";
  const auto document = parse_json_object(body);
  ASSERT_FALSE(document);
  EXPECT_NE(document.error().message().find("keys"), std::string::npos);
}

TEST(Json, SkipsABom) { EXPECT_EQ(dumped("\xEF\xBB\xBF{\"a\":1}"), R"({"a":1})"); }

TEST(Json, IllFormedTextBecomesReplacementCharacters) {
  EXPECT_EQ(dumped("{\"a\":\"x\xFFy\"}"), "{\"a\":\"x\uFFFDy\"}");
  EXPECT_EQ(dumped("{\"a\":\"\xF0\x9F\x98\"}"), "{\"a\":\"\uFFFD\"}");
}

TEST(Json, SurrogateEscapesWithoutTheirOtherHalfBecomeReplacementCharacters) {
  EXPECT_EQ(dumped(R"({"a":"\ud83d\ude00"})"), "{\"a\":\"\U0001F600\"}");
  EXPECT_EQ(dumped(R"({"a":"\ud83d"})"), "{\"a\":\"\uFFFD\"}");
  EXPECT_EQ(dumped(R"({"a":"\ud83dx"})"), "{\"a\":\"\uFFFDx\"}");
  EXPECT_EQ(dumped(R"({"a":"\ude00\ud83d\ud83d\ude00"})"), "{\"a\":\"\uFFFD\uFFFD\U0001F600\"}");
  EXPECT_EQ(dumped(R"({"a":"\\ud83d"})"), R"({"a":"\\ud83d"})");
  EXPECT_EQ(dumped(R"({"a":"\ud83d\n"})"), "{\"a\":\"\uFFFD\\n\"}");
}

TEST(Json, NestingHasALimit) {
  const auto nested = [](size_t depth) {
    return R"({"a":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_TRUE(parse_json_object(nested(kMaxJsonDepth)));
  const auto deeper = parse_json_object(nested(kMaxJsonDepth + 1));
  ASSERT_FALSE(deeper);
  EXPECT_EQ(deeper.error().reason(), "invalid_json");
  EXPECT_FALSE(parse_json_object(std::string(10'000'000, '[')));
  EXPECT_FALSE(parse_json_object(std::string(10'000'000, '{')));
  EXPECT_TRUE(parse_json_object(R"({"a":")" + std::string(1000, '[') + "\"}"));
}

TEST(Json, WhatIsNoObjectIsRefused) {
  for (const char* body : {"", "   \r\n", "\xEF\xBB\xBF"}) {
    const auto document = parse_json_object(body);
    ASSERT_FALSE(document);
    EXPECT_EQ(document.error().reason(), "") << "an empty body has no code";
  }
  for (const char* body : {"null", "[]", "5", "\"x\"", "{", "{\"a\":}", "{\"a\":1}x", "{'a':1}", "{\"a\":1,}", "\\",
                           "{\"", "{\"a\":\"\\u12", "{\"a\":\"\\", "{\"a\":1e999}", "nan", "{\"a\":NaN}"}) {
    const auto document = parse_json_object(body);
    ASSERT_FALSE(document) << body;
    EXPECT_EQ(document.error().reason(), "invalid_json") << body;
    EXPECT_EQ(document.error().message().find("json.exception"), std::string::npos) << document.error().message();
  }
}

TEST(FieldReader, NullCountsAsAbsentAndIntegralFloatsAsIntegers) {
  const Json body =
      Json::parse(R"({"null":null,"one":1.0,"half":0.5,"big":9223372036854775807,"huge":1e300,"yes":true})");
  FieldReader fields(body);
  EXPECT_FALSE(fields.find_integer("null"));
  EXPECT_FALSE(fields.find_bool("absent"));
  EXPECT_EQ(fields.find_integer("one"), 1);
  EXPECT_EQ(fields.find_integer("big"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(fields.find_bool("yes"), true);
  EXPECT_TRUE(fields.result());
  EXPECT_FALSE(fields.find_integer("half"));
  EXPECT_FALSE(fields.result());
}

TEST(FieldReader, TheFirstFaultIsKeptWithItsPath) {
  const Json body = Json::parse(R"({"options":{"n":"x","m":7},"late":[]})");
  FieldReader fields(body);
  FieldReader options = fields.nested("options");
  options.find_integer("n");
  options.find_integer("m", {0, 3});
  fields.find_bool("late");
  const auto result = fields.result();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().field(), "options.n");
  EXPECT_EQ(result.error().reason(), "invalid_type");
  EXPECT_EQ(result.error().message(), "Invalid type for 'options.n': expected an integer, got a string.");
}

}  // namespace
}  // namespace tempo9::server
