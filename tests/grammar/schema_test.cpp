// What schemas admit, and how those are refused that cannot be enforced.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "grammar/support.h"

namespace tempo9::grammar {
namespace {

using testing::allows;
using testing::compile;
using testing::Json;
using testing::refusal;

void expect(std::string_view schema, const std::vector<const char*>& allowed, const std::vector<const char*>& others) {
  const auto grammar = compile(schema);
  ASSERT_NE(grammar, nullptr) << schema;
  for (const char* text : allowed) EXPECT_TRUE(allows(grammar, text)) << schema << ": " << text;
  for (const char* text : others) EXPECT_FALSE(allows(grammar, text)) << schema << ": " << text;
}

TEST(Schema, NumbersAreThoseOfJson) {
  expect(R"({"type": "number"})", {"0", "-0", "-0.5", "12", "1.25", "1e5", "1E-07", "2.5e+10"},
         {"", "-", "01", "1.", ".5", "1e", "+1", "1e100", "NaN", "0x1"});
  expect(R"({"type": "integer"})", {"0", "-1", "1234567890123456789"}, {"1.0", "01", "1e3"});
}

TEST(Schema, BoundsOfIntegersAreExact) {
  for (const auto& [min, max] : {std::pair{0, 0}, {3, 7}, {-5, 12}, {-230, -17}, {9, 1001}, {100, 299}, {-1, 0}}) {
    const auto grammar = compile(fmt::format(R"({{"type": "integer", "minimum": {}, "maximum": {}}})", min, max));
    ASSERT_NE(grammar, nullptr);
    for (int value = -1200; value <= 1200; ++value) {
      ASSERT_EQ(allows(grammar, std::to_string(value)), min <= value && value <= max) << value;
    }
  }
  expect(R"({"type": "integer", "minimum": 1.5, "exclusiveMaximum": 4})", {"2", "3"}, {"1", "4"});
  expect(R"({"type": "integer", "minimum": 37})", {"37", "40", "99", "100", "36000"}, {"36", "9", "-37", "036"});
}

TEST(Schema, StringsAreThoseOfJson) {
  expect(R"({"type": "string"})", {R"("")", R"("aé中😀")", R"("\n\"\\\/")", R"("\u00e9\uD83D\uDE00")", "\"\x7F\""},
         {R"(")", R"("\x")", R"("\ud83d")", R"("\ude00")", R"("\uD83D\u0041")", "\"\n\"", "\"\xFF\"", "\"\xC3\"",
          "\"\xED\xA0\x80\"", "\"\xC0\x80\""});
  expect(R"({"type": "string", "minLength": 1, "maxLength": 2})", {R"("é")", R"("😀\n")", R"("\uD83D\uDE00a")"},
         {R"("")", R"("abc")", R"("\n\n\n")"});
}

TEST(Schema, LimitsMayBeLarge) {
  for (const char* max : {"1", "2000", "10000", "2147483648", "1e30"}) {
    const auto grammar = compile(fmt::format(R"({{"type": "string", "maxLength": {}}})", max));
    ASSERT_NE(grammar, nullptr);
    EXPECT_LT(grammar->automaton().n_nodes(), 200u);
    EXPECT_TRUE(allows(grammar, R"("a")"));
    EXPECT_EQ(allows(grammar, "\"" + std::string(2001, 'a') + "\""), std::stod(max) > 2000);
  }
  const auto items = compile(R"({"type": "array", "items": {"const": 1}, "minItems": 3000, "maxItems": 3001})");
  ASSERT_NE(items, nullptr);
  Matcher matcher(items);
  ASSERT_TRUE(matcher.accept("[1"));
  int n = 1;
  for (; matcher.accept(",1"); ++n) {
    Matcher fork = matcher;
    EXPECT_EQ(fork.accept("]"), n + 1 >= 3000) << n + 1;
  }
  EXPECT_EQ(n, 3001);
}

TEST(Schema, PropertiesComeInOrder) {
  expect(
      R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": true},
             "required": ["b"], "additionalProperties": false})",
      {R"({"a":1,"b":2,"c":3})", R"({"b":2})", R"({ "a" : 1 , "b" : 2 })", "{\n  \"b\": 2,\n  \"c\": []\n}"},
      {"{}", R"({"a":1})", R"({"b":1,"a":2})", R"({"b":1,})", R"({,"b":1})", R"({"b":1 "c":2})", R"({"d":1,"b":2})"});
}

TEST(Schema, AdditionalPropertiesAreNoneOfTheOthers) {
  const char* schema = R"({"type": "object", "properties": {"name": {"type": "integer"}, "né": {"type": "integer"}},
                           "additionalProperties": {"type": "boolean"}})";
  expect(
      schema,
      {R"({"name":1,"nam":true})", R"({"names":true})", R"({"":false})", R"({"x":true,"y":false})", R"({"nè":true})"},
      {R"({"name":true})", R"({"né":true})", R"({"x":1})", R"({"n\u0061me":true})", R"({"x":true,"name":1})"});
}

TEST(Schema, ObjectsAreOpenUnlessTheCallerClosesThem) {
  const char* schema = R"({"type": "object", "properties": {"a": true}})";
  EXPECT_TRUE(allows(compile(schema), R"({"b":1})"));
  EXPECT_FALSE(allows(compile(schema, {.closed_objects = true}), R"({"b":1})"));
  EXPECT_TRUE(allows(compile(schema, {.closed_objects = true}), R"({"a":{"b":1}})"));
  EXPECT_FALSE(allows(compile(R"({"type": "object"})", {.closed_objects = true}), R"({"b":1})"));
}

TEST(Schema, ConstantsMayBeAnything) {
  expect(R"({"const": {"a": [1, "x\n"], "b": {}}})",
         {R"({"a":[1,"x\n"],"b":{}})", R"({ "a": [ 1, "x\n" ], "b": { } })"},
         {R"({"a":[1,"x\n"]})", R"({"b":{},"a":[1,"x\n"]})"});
  expect(R"({"enum": [null, "a\"b", -1.5]})", {"null", R"("a\"b")", "-1.5"}, {"nul", "\"null\"", "-1"});
}

TEST(Schema, PatternsAreSearchedFor) {
  expect(R"({"type": "string", "pattern": "\\S"})", {R"("a")", R"("  x ")", R"("\"")"},
         {R"("")", R"("  ")", R"("\n")"});
  expect(R"({"type": "string", "pattern": "^a"})", {R"("a")", R"("ab")"}, {R"("ba")"});
  expect(R"({"type": "string", "pattern": "b$"})", {R"("b")", R"("ab")"}, {R"("ba")"});
  expect(R"({"type": "string", "pattern": "^\\d{4}-\\d{2}$"})", {R"("2024-01")"}, {R"("2024-1")", R"("x2024-01")"});
  expect(R"({"type": "string", "pattern": "^(?:[\\w.-]+|\\u00e9{2,})/?$"})", {R"("a.b-c/")", R"("éé")"},
         {R"("é")", R"("a b")"});
  expect(R"({"type": "string", "pattern": "^.*$", "maxLength": 2})", {R"("")", R"("ab")"}, {R"("abc")", R"("\n")"});
  expect(R"({"type": "string", "format": "date"})", {R"("2024-02-29")"}, {R"("2024-13-01")", R"("today")"});
}

TEST(Schema, ReferencesMayGoInCircles) {
  expect(R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}},
             "additionalProperties": false}, "b": {"type": "array", "items": {"$ref": "#/$defs/a"}}}})",
         {R"({"b":[{"b":[]},{}]})"}, {R"({"b":[[]]})"});
  EXPECT_EQ(refusal(R"({"$ref": "#"})"), "schema: a definition refers to itself without anything before");
  EXPECT_EQ(
      refusal(
          R"({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"const": 1}]}}})"),
      "schema: a definition refers to itself without anything before");
  EXPECT_NE(refusal(R"({"$ref": "#", "minLength": 1})").find("nested deeper"), std::string::npos);
  EXPECT_NE(refusal(R"({"anyOf": [{"$ref": "#", "minLength": 1}, {"$ref": "#", "minLength": 2}]})"), "accepted");
}

TEST(Schema, FaultsAreNamedWithTheirPlace) {
  EXPECT_EQ(refusal(R"({"properties": {"a": {"type": "strin"}}})"), "schema #/properties/a/type: \"strin\" is no type");
  EXPECT_EQ(refusal(R"({"items": {"$ref": "#/$defs/x"}})"), "schema #/items/$ref: \"#/$defs/x\" refers to nothing");
  EXPECT_EQ(refusal(R"({"$ref": "http://x/y"})"), "schema #/$ref: \"http://x/y\" is not a place in this schema");
  EXPECT_EQ(refusal(R"({"minLength": -1})"), "schema #/minLength: not a count");
  EXPECT_EQ(refusal(R"({"minItems": 3, "maxItems": 2})"), "schema #/minItems: more than the maximum");
  EXPECT_EQ(refusal(R"({"pattern": "(a"})"), "schema #/pattern: an unmatched (");
  EXPECT_EQ(refusal(R"({"properties": {"a": false}, "required": ["a"]})"), "schema: no value satisfies it");
  EXPECT_EQ(refusal(R"({"pattern": "^a{3}$", "maxLength": 2})"), "schema: no value satisfies it");
  EXPECT_EQ(refusal(R"([])"), "schema #: not an object or a boolean");
  EXPECT_EQ(refusal(R"({"enum": 3})"), "schema #/enum: not an array");
  EXPECT_EQ(refusal(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})"),
            "schema #/allOf: pattern: two that differ cannot be joined");
}

// Field report J03: never dropped in silence.
TEST(Schema, WhatIsNotEnforcedIsNamed) {
  const auto grammar = compile(R"json({"type": "object", "properties": {
      "n": {"type": "number", "minimum": 1, "multipleOf": 2},
      "s": {"type": "string", "pattern": "(?=a)", "description": "x"},
      "e": {"type": "string", "format": "email"}}, "minProperties": 1, "title": "t"})json");
  ASSERT_NE(grammar, nullptr);
  EXPECT_EQ(
      grammar->not_enforced(),
      (std::vector<std::string>{"#: minProperties", "#/properties/n: multipleOf", "#/properties/n: minimum of a number",
                                "#/properties/s: pattern (look-around)", "#/properties/e: format \"email\""}));
  for (const char* keyword :
       {"if", "then", "else", "not", "dependentSchemas", "dependentRequired", "unevaluatedProperties",
        "unevaluatedItems", "contains", "minContains", "propertyNames", "patternProperties", "uniqueItems",
        "multipleOf", "minProperties", "maxProperties", "$dynamicRef", "surprise"}) {
    const std::string schema = Json{{"type", "object"}, {"properties", {{"a", {{keyword, Json::object()}}}}}}.dump();
    const auto one = compile(schema);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one->not_enforced(), (std::vector<std::string>{fmt::format("#/properties/a: {}", keyword)}));
    EXPECT_EQ(refusal(schema, {.refuse_unenforced = true}),
              fmt::format("schema #/properties/a: {} is not supported", keyword));
  }
}

TEST(Schema, SizeIsLimited) {
  EXPECT_NE(refusal(R"({"pattern": "^(((a{2000}){2000}){2000})$"})").find("nodes"), std::string::npos);
  std::string deep = "true";
  for (int i = 0; i < 500; ++i) deep = R"({"items": )" + deep + "}";
  EXPECT_NE(refusal(deep).find("nested deeper"), std::string::npos);
}

// Whatever a schema says, it is compiled or refused; never more than that.
TEST(Schema, NoSchemaCrashes) {
  std::mt19937 random(7);
  const std::vector<std::string> keywords = {"type",    "properties",  "required", "additionalProperties",
                                             "items",   "prefixItems", "minItems", "maxItems",
                                             "enum",    "const",       "anyOf",    "oneOf",
                                             "allOf",   "$ref",        "$defs",    "minLength",
                                             "pattern", "format",      "minimum",  "exclusiveMaximum",
                                             "maximum", "a",           "b"};
  const std::vector<Json> scalars = {nullptr,      true,    false,  0,           1,
                                     -3,           2.5,     1e300,  "object",    "string",
                                     "integer",    "array", "#",    "#/$defs/a", "#/properties/b",
                                     "^a+(b|c)*$", "[",     "a{3}", "date",      "\xFF"};
  const std::function<Json(int)> make = [&](int depth) -> Json {
    if (depth == 0 || random() % 4 == 0) return scalars[random() % scalars.size()];
    Json out = random() % 3 == 0 ? Json::array() : Json::object();
    for (uint32_t n = random() % 4; n > 0; --n) {
      if (out.is_array()) {
        out.push_back(make(depth - 1));
      } else {
        out[keywords[random() % keywords.size()]] = make(depth - 1);
      }
    }
    return out;
  };
  int n_compiled = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto grammar = Grammar::compile(make(4));
    if (!grammar) continue;
    ++n_compiled;
    Matcher matcher(*grammar);
    for (const char* text : {"{\"a\": ", "[", "1", "\"a\""}) Matcher(matcher).accept(text);
  }
  EXPECT_GT(n_compiled, 100);
}

// Field report J10: many optional parts in a row.
TEST(Schema, ManyOptionalPropertiesStayCheap) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  for (int i = 0; i < 200; ++i) schema["properties"][fmt::format("property_{}", i)] = {{"type", "integer"}};
  const auto grammar = Grammar::compile(schema);
  ASSERT_TRUE(grammar);
  Matcher matcher(*grammar);
  EXPECT_TRUE(matcher.accept(R"({"property_17": 1, "property_18": 2, "property_199": 3})"));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_LT((*grammar)->automaton().n_nodes(), 200u * 60);
}

}  // namespace
}  // namespace tempo9::grammar
