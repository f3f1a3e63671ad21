// Thoughts that get too long are ended in the model's place.
#include "engine/thought.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "engine/answers.h"
#include "engine/engine.h"
#include "engine/fake_model.h"
#include "grammar/grammar.h"

namespace tempo9::engine {
namespace {

using testing::Answer;
using testing::FakeBackend;
using testing::FakeTokenizer;

ThoughtLimit limit(int64_t max_tokens, bool is_open) {
  return {.max_tokens = max_tokens, .is_open = is_open, .open = "<think>", .close = "</think>", .end = {7, 8}};
}

// The texts come one token each, with id 100; a token that must come is taken. What is forced, by place.
std::string places(Thought thought, const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) {
    const auto forced = thought.forced();
    out += forced ? static_cast<char>('0' + *forced) : '.';
    thought.accept(forced.value_or(100), forced ? "" : text);
  }
  return out;
}

TEST(Thought, IsEndedOnceItHasAllItsTokens) {
  EXPECT_EQ(places(Thought(limit(3, true)), {"a", "b", "c", "d", "e", "f", "g"}), "...78..");
  EXPECT_EQ(places(Thought(limit(0, true)), {"a", "b", "c", "d"}), "78..");
}

TEST(Thought, ThatEndsInTimeIsLeftAlone) {
  EXPECT_EQ(places(Thought(limit(3, true)), {"a", "</think>", "c", "d", "e", "f"}), "......");
  EXPECT_EQ(places(Thought(limit(3, true)), {"a</th", "ink", ">", "d", "e", "f"}), "......");
  EXPECT_EQ(places(Thought(limit(3, true)), {"a</th", "in", "g>", "d", "e"}), "...78");
}

TEST(Thought, ThatTheModelOpensIsCountedFromThere) {
  EXPECT_EQ(places(Thought(limit(2, false)), {"<think>", "a", "b", "c", "d", "e"}), "...78.");
  EXPECT_EQ(places(Thought(limit(2, false)), {" \n", "<th", "ink>\n", "a", "b", "c", "d"}), ".....78");
  EXPECT_EQ(places(Thought(limit(2, false)), {"<think></think>", "a", "b", "c", "d"}), ".....");
}

TEST(Thought, IsOnlyWhatTheAnswerBeginsWith) {
  EXPECT_EQ(places(Thought(limit(1, false)), {"Tag: ", "<think>", "a", "b", "c"}), ".....");
  EXPECT_EQ(places(Thought(limit(1, false)), {"<thin", "g>", "<think>", "b", "c"}), ".....");
}

TEST(Thought, IsNotCutInsideACharacter) {
  EXPECT_EQ(places(Thought(limit(1, true)), {"\xE2", "\x82", "\xAC", "x", "y", "z"}), "...78.");
}

TEST(Thought, IsNoLongerEndedWhenAnotherTokenCame) {
  Thought thought(limit(0, true));
  EXPECT_EQ(thought.forced(), 7);
  thought.accept(7, "");
  thought.accept(9, "");
  EXPECT_EQ(thought.forced(), std::nullopt);
}

class ThoughtTest : public ::testing::Test {
 protected:
  ThoughtTest() { spdlog::set_level(spdlog::level::off); }

  Answer run(Request request) {
    auto engine = Engine::create(backend_, model_, tokenizer_, {.context_length = 512});
    EXPECT_TRUE(engine.has_value()) << engine.error().message();
    request.prompt = {2};
    request.sampling.temperature = 0.0f;
    return testing::read_all(**(*engine)->submit(request));
  }

  models::Model model_ = testing::fake_model();
  FakeTokenizer tokenizer_{{{40, "</t>"}, {41, "\""}, {42, "<t>"}}};
  // Would write "cccccc", and end.
  FakeBackend backend_{testing::scripted_logits(1, {2, 2, 2, 2, 2, 2})};
};

ThoughtLimit two_tokens() { return {.max_tokens = 2, .is_open = true, .open = "<t>", .close = "</t>", .end = {40, 3}}; }

TEST_F(ThoughtTest, TheEngineWritesTheEnd) {
  Request request;
  request.thought_limit = two_tokens();
  const Answer answer = run(request);
  EXPECT_EQ(answer.text, "cc</t>dcc");
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_EQ(answer.usage.completion_tokens, 6);
}

TEST_F(ThoughtTest, WhatIsNotAnOpenThoughtIsLeftAlone) {
  Request request;
  request.thought_limit = two_tokens();
  request.thought_limit.is_open = false;
  EXPECT_EQ(run(request).text, "cccccc");
}

TEST_F(ThoughtTest, AGrammarHasTheLastWord) {
  Request request;
  request.thought_limit = two_tokens();
  const auto grammar = grammar::Grammar::compile({{"type", "string"}, {"pattern", "^c{4}$"}});
  ASSERT_TRUE(grammar) << grammar.error().message();
  request.constraint.grammar = *grammar;
  EXPECT_EQ(run(request).text, "\"cccc\"");
}

TEST_F(ThoughtTest, ALimitWithoutMarksOrWithForeignTokensIsRefused) {
  Request request;
  request.thought_limit = two_tokens();
  request.thought_limit.end = {static_cast<int32_t>(testing::kFakeVocab)};
  request.prompt = {2};
  auto engine = Engine::create(backend_, model_, tokenizer_, {.context_length = 512});
  ASSERT_TRUE(engine);
  EXPECT_FALSE((*engine)->submit(request));
  request.thought_limit = two_tokens();
  request.thought_limit.close = "";
  EXPECT_FALSE((*engine)->submit(request));
}

}  // namespace
}  // namespace tempo9::engine
