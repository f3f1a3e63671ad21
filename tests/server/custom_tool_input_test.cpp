#include "server/dialects/custom_tool_input.h"

#include <gtest/gtest.h>

#include <utility>

#include "chat/tools/json_strings.h"

namespace tempo9::server {
namespace {

// The text of the arguments, however they are cut in two.
std::string text_of(std::string_view arguments) {
  CustomToolInput whole;
  std::string text = whole.feed(arguments);
  text += whole.finish();
  for (size_t cut = 0; cut <= arguments.size(); ++cut) {
    CustomToolInput input;
    std::string pieces = input.feed(arguments.substr(0, cut));
    pieces += input.feed(arguments.substr(cut));
    pieces += input.finish();
    EXPECT_EQ(pieces, text) << "cut at " << cut;
  }
  CustomToolInput input;
  std::string bytes;
  for (const char c : arguments) bytes += input.feed({&c, 1});
  EXPECT_EQ(bytes + input.finish(), text);
  return text;
}

TEST(CustomToolInput, IsTheTextInTheArguments) {
  for (const std::string text : {"", "plain", "a\nb\t\"q\" \\ /", "\xC3\xBC \xF0\x9F\xA6\x8A", "{\"input\": \"x\"}"}) {
    EXPECT_EQ(text_of("{\"input\":" + chat::tools::quote_json(text) + "}"), text);
    EXPECT_EQ(text_of(" { \"input\" : " + chat::tools::quote_json(text) + " } "), text);
  }
}

TEST(CustomToolInput, EscapesAreDecoded) {
  EXPECT_EQ(text_of(R"({"input":"\u00fc\ud83e\udd8a\/\b\f\r\n"})"), "\xC3\xBC\xF0\x9F\xA6\x8A/\b\f\r\n");
  EXPECT_EQ(text_of(R"({"input":"a\ud83eb"})"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(text_of(R"({"input":"\ud83e"})"), "\xEF\xBF\xBD");
  EXPECT_EQ(text_of(R"({"input":"\ud83e\ud83e\udd8a"})"), "\xEF\xBF\xBD\xF0\x9F\xA6\x8A");
}

TEST(CustomToolInput, StreamsWhileItComes) {
  CustomToolInput input;
  EXPECT_EQ(input.feed("{\"input\": \"*** Beg"), "*** Beg");
  EXPECT_EQ(input.feed("in\\"), "in");
  EXPECT_EQ(input.feed("n+x\""), "\n+x");
  EXPECT_EQ(input.feed("}"), "");
  EXPECT_EQ(input.finish(), "");
}

TEST(CustomToolInput, OtherFormsGiveTheOnlyTextInThem) {
  EXPECT_EQ(text_of(R"("just text")"), "just text");
  EXPECT_EQ(text_of(R"({"patch":"p"})"), "p");
  EXPECT_EQ(text_of(R"({"why":"w","input":"i"})"), "i");
  EXPECT_EQ(text_of(R"({"a":"1","b":"2"})"), R"({"a":"1","b":"2"})");
  EXPECT_EQ(text_of(R"({"input":5})"), R"({"input":5})");
  EXPECT_EQ(text_of("{}"), "");
  EXPECT_EQ(text_of(""), "");
}

TEST(CustomToolInput, WhatBreaksOffStaysBroken) {
  EXPECT_EQ(text_of(R"({"input":"abc)"), "abc");
  EXPECT_EQ(text_of(R"({"input":"abc\)"), "abc");
  EXPECT_EQ(text_of(R"({"input":"abc\u00)"), "abc");
  EXPECT_EQ(text_of(R"({"inp)"), "");
  EXPECT_EQ(text_of(R"({"patch":"ab)"), R"({"patch":"ab)");
}

}  // namespace
}  // namespace tempo9::server
