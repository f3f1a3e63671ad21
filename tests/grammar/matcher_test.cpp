// Following an output: forks, ends, limits of the stack, masks of tokens that span several pieces of JSON.
#include "grammar/matcher.h"

#include <gtest/gtest.h>

#include <string>

#include "grammar/support.h"

namespace tempo9::grammar {
namespace {

TEST(Matcher, TakesAllBytesOrNone) {
  Matcher matcher(
      testing::compile(R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})"));
  EXPECT_TRUE(matcher.accept("{\"a"));
  EXPECT_FALSE(matcher.accept("\": x"));
  EXPECT_TRUE(matcher.accept("\": 1"));
  EXPECT_FALSE(matcher.can_end());
  EXPECT_TRUE(matcher.accept("}"));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_TRUE(matcher.must_end());
  EXPECT_FALSE(matcher.accept(" "));
}

TEST(Matcher, AForkGoesItsOwnWay) {
  Matcher matcher(testing::compile(R"({"enum": ["left", "right"]})"));
  ASSERT_TRUE(matcher.accept("\""));
  Matcher fork = matcher;
  EXPECT_TRUE(fork.accept("left\""));
  EXPECT_TRUE(fork.can_end());
  EXPECT_FALSE(matcher.can_end());
  EXPECT_TRUE(matcher.accept("right\""));
  fork = matcher;
  EXPECT_TRUE(fork.must_end());
}

TEST(Matcher, NumbersMayEndOrGoOn) {
  Matcher matcher(testing::compile(R"({"type": "integer"})"));
  ASSERT_TRUE(matcher.accept("12"));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_FALSE(matcher.must_end());
}

// Field report A22: a small model wrote digits until its limit of tokens, and the call that was forced never came.
TEST(Matcher, ANumberWithoutBoundsEndsAsWell) {
  const std::string few(20, '2'), many(30, '2');
  for (const char* schema :
       {R"({"type": "integer"})", R"({"type": "integer", "maximum": 999})", R"({"type": "number"})"}) {
    const auto grammar = testing::compile(schema);
    EXPECT_TRUE(testing::allows(grammar, "-" + few)) << schema;
    EXPECT_FALSE(testing::allows(grammar, "-" + many)) << schema;
  }
  const auto number = testing::compile(R"({"type": "number"})");
  EXPECT_TRUE(testing::allows(number, few + "." + few + "e-12"));
  EXPECT_FALSE(testing::allows(number, "0." + many));
}

TEST(Matcher, NestingIsLimitedByTheStack) {
  Matcher matcher(testing::compile("{}"));
  int depth = 0;
  while (depth < 1000 && matcher.accept("[")) ++depth;
  EXPECT_GE(depth, 100);
  EXPECT_LT(depth, 300);
  EXPECT_TRUE(matcher.accept("]"));
}

TEST(Matcher, WhiteSpaceIsLimited) {
  Matcher matcher(testing::compile(R"({"type": "array"})"));
  ASSERT_TRUE(matcher.accept("["));
  int n = 0;
  while (n < 1000 && matcher.accept("\n")) ++n;
  EXPECT_EQ(n, 64);
  EXPECT_TRUE(matcher.accept("]"));
}

// Field report J15: a token may hold several pieces of JSON.
TEST(Matcher, MasksAllowTokensAcrossPieces) {
  const auto& texts = testing::token_texts();
  Matcher matcher(testing::compile(R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}},
                                      "required": ["name"], "additionalProperties": false})"));
  TokenMask mask(testing::token_trie().n_tokens());
  const auto allowed = [&] {
    matcher.allowed_tokens(testing::token_trie(), mask);
    std::string joined;
    for (size_t id = 256; id < texts.size(); ++id) {
      if (mask.has(static_cast<int32_t>(id))) joined += "|" + texts[id];
    }
    return joined;
  };
  EXPECT_EQ(allowed(), "|{\"|\n  |    ");
  ASSERT_TRUE(matcher.accept("{\""));
  EXPECT_EQ(allowed(), "|na|name|name\"");
  ASSERT_TRUE(matcher.accept("name\": \"ab"));
  EXPECT_EQ(allowed(), "|{\"|\"}|é|\xE4\xB8|\xF0\x9F|😀|\\n|\\u00|\\\"|a\"|x");
  ASSERT_TRUE(matcher.accept("c"));
  EXPECT_EQ(allowed(), "|\"}");
}

TEST(TokenTrie, KeepsEveryTokenAndEqualTextsTogether) {
  const std::vector<std::string> texts = {"ab", "a", "", "ab", "b\"", "é", "\xC3"};
  const TokenTrie trie(7, [&](int32_t id) -> std::string_view { return texts[static_cast<size_t>(id)]; });
  EXPECT_EQ(trie.plain().count(), 4);
  EXPECT_EQ(trie.longest_plain(), 2u);
  Matcher matcher(testing::compile(R"({"enum": ["abc"]})"));
  ASSERT_TRUE(matcher.accept("\""));
  TokenMask mask(7);
  matcher.allowed_tokens(trie, mask);
  EXPECT_EQ(mask.count(), 3);
  EXPECT_TRUE(mask.has(0) && mask.has(1) && mask.has(3));
}

}  // namespace
}  // namespace tempo9::grammar
