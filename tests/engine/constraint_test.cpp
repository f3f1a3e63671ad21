// Answers held to a grammar, by a model that wants something else.
#include "engine/constraint.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "engine/answers.h"
#include "engine/engine.h"
#include "engine/fake_model.h"
#include "grammar/answer.h"

namespace tempo9::engine {
namespace {

using nlohmann::ordered_json;
using testing::Answer;
using testing::FakeBackend;
using testing::FakeTokenizer;
using testing::read_all;

constexpr int32_t kBracket = 50;  // "]"

const std::map<int32_t, std::string> kPieces{{40, "{"},    {41, "}"},     {42, "\""},     {43, ":"},   {44, ","},
                                             {45, "true"}, {46, "fa"},    {47, "\"a\":"}, {48, "lse"}, {49, "1"},
                                             {50, "]"},    {51, "]\n\n"}, {52, "["}};

std::shared_ptr<const grammar::Grammar> compile(const ordered_json& schema) {
  auto grammar = grammar::Grammar::compile(schema);
  EXPECT_TRUE(grammar.has_value()) << grammar.error().message();
  return grammar ? *grammar : nullptr;
}

const ordered_json kSchema = {
    {"type", "object"},
    {"properties",
     {{"a", {{"type", "boolean"}}}, {"b", {{"type", "string"}, {"maxLength", 8}}}, {"c", {{"enum", {1, "ab", 11}}}}}},
    {"required", {"a", "b", "c"}},
    {"additionalProperties", false}};

void expect_fits_schema(const std::string& text) {
  const ordered_json value = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(value.is_object()) << text;
  EXPECT_EQ(value.size(), 3u) << text;
  EXPECT_TRUE(value.value("a", ordered_json()).is_boolean()) << text;
  ASSERT_TRUE(value.value("b", ordered_json()).is_string()) << text;
  EXPECT_LE(value["b"].get<std::string>().size(), 8u) << text;
  const ordered_json c = value.value("c", ordered_json());
  EXPECT_TRUE(c == 1 || c == 11 || c == "ab") << text;
}

class ConstraintTest : public ::testing::Test {
 protected:
  ConstraintTest() { spdlog::set_level(spdlog::level::off); }

  void start(EngineOptions options = {}, testing::LogitsFunction logits = testing::hashed_logits) {
    if (options.context_length == EngineOptions{}.context_length) options.context_length = 512;
    backend_ = std::make_unique<FakeBackend>(std::move(logits));
    backend_->on_run = on_run_;
    auto engine = Engine::create(*backend_, model_, tokenizer_, options);
    ASSERT_TRUE(engine.has_value()) << engine.error().message();
    engine_ = *std::move(engine);
  }
  static Request request(std::vector<int32_t> prompt, std::shared_ptr<const grammar::Grammar> grammar) {
    Request r;
    r.id = "test";
    r.client = "client";
    r.prompt = std::move(prompt);
    r.sampling.temperature = 0.0f;
    r.constraint.grammar = std::move(grammar);
    return r;
  }
  std::shared_ptr<Stream> submit(const Request& r) {
    auto stream = engine_->submit(r);
    EXPECT_TRUE(stream.has_value()) << stream.error().message();
    return *stream;
  }
  Answer run(const Request& r) { return read_all(*submit(r)); }

  // Half of them free; all with their own seed.
  static std::vector<Request> mixed_requests(int32_t n) {
    const auto grammar = compile(kSchema);
    std::vector<Request> requests;
    for (int32_t i = 0; i < n; ++i) {
      requests.push_back(
          request(std::vector<int32_t>(static_cast<size_t>(3 + 7 * i), 2 + i), i % 2 ? nullptr : grammar));
      requests.back().max_tokens = 60;
      requests.back().sampling.temperature = i % 4 < 2 ? 0.0f : 1.0f;
      requests.back().sampling.seed = static_cast<uint64_t>(i);
    }
    return requests;
  }

  std::function<void(const tensor::Batch&)> on_run_;
  models::Model model_ = testing::fake_model();
  FakeTokenizer tokenizer_{kPieces};
  std::unique_ptr<FakeBackend> backend_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ConstraintTest, AModelThatWritesAnythingWritesWhatTheSchemaSays) {
  start();
  const auto grammar = compile(kSchema);
  for (int32_t i = 0; i < 40; ++i) {
    Request r = request({2, 2 + i}, grammar);
    r.sampling.temperature = i % 2 == 0 ? 0.0f : 2.0f;
    r.sampling.frequency_penalty = i % 3 == 0 ? 1.0f : 0.0f;
    const Answer answer = run(r);
    EXPECT_EQ(answer.finish, FinishReason::kStop);
    expect_fits_schema(answer.text);
  }
}

TEST_F(ConstraintTest, AModelThatWantsToEndCannotBeforeTheAnswerIsWhole) {
  start({}, testing::scripted_logits(1, {}));
  const Answer answer = run(request({2}, compile({{"const", "cab"}})));
  EXPECT_EQ(answer.text, "\"cab\"");
  EXPECT_EQ(answer.finish, FinishReason::kStop);
}

TEST_F(ConstraintTest, AModelThatMayGoOnEndsWhereItWants) {
  start({}, testing::scripted_logits(1, {49, 49, 49}));
  EXPECT_EQ(run(request({2}, compile({{"type", "integer"}}))).text, "111");
}

TEST_F(ConstraintTest, AloneOrInABatchTheAnswerIsTheSame) {
  const std::vector<Request> requests = mixed_requests(12);
  std::vector<std::string> alone;
  start({.max_batch = 1});
  for (const Request& r : requests) alone.push_back(run(r).text);
  for (size_t i = 0; i < alone.size(); i += 2) expect_fits_schema(alone[i]);

  start({.max_batch = 12, .max_step_rows = 16});
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Request& r : requests) streams.push_back(submit(r));
  for (size_t i = 0; i < streams.size(); ++i) EXPECT_EQ(read_all(*streams[i]).text, alone[i]) << i;
}

TEST_F(ConstraintTest, APausedSequenceKeepsItsPlaceInTheGrammar) {
  int n_restarts = 0;  // passes of slot 0 beyond the first of each request
  on_run_ = [&](const tensor::Batch& batch) { n_restarts += static_cast<int>(std::ranges::count(batch.slots, 0)); };
  const auto grammar = compile(
      {{"type", "array"}, {"items", {{"type", "string"}, {"minLength", 8}}}, {"minItems", 120}, {"maxItems", 120}});
  start({.context_length = 700, .max_batch = 1});
  std::vector<std::string> alone;
  for (int32_t i = 0; i < 4; ++i) alone.push_back(run(request({2 + i, 3}, grammar)).text);
  for (const std::string& text : alone) EXPECT_GT(text.size(), 500u);

  n_restarts = 0;
  start({.context_length = 700, .max_batch = 4, .kv_tokens = 1100});
  std::vector<std::shared_ptr<Stream>> streams;
  for (int32_t i = 0; i < 4; ++i) streams.push_back(submit(request({2 + i, 3}, grammar)));
  for (size_t i = 0; i < streams.size(); ++i) EXPECT_EQ(read_all(*streams[i]).text, alone[i]) << i;
  EXPECT_GT(n_restarts, 4);
}

TEST_F(ConstraintTest, ADeadEndIsAnErrorAndTouchesNoOtherRequest) {
  start();
  const auto dead = submit(request({2}, compile({{"const", "a-b"}})));  // no token has the hyphen
  const auto good = submit(request({3}, compile(kSchema)));
  const Answer answer = read_all(*dead);
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(answer.error->reason(), "constraint_dead_end");
  EXPECT_FALSE(answer.finish);
  expect_fits_schema(read_all(*good).text);
}

TEST_F(ConstraintTest, TheTokenLimitComesFirst) {
  start();
  Request r = request({2}, compile(kSchema));
  r.max_tokens = 3;
  EXPECT_EQ(run(r).finish, FinishReason::kLength);
}

TEST_F(ConstraintTest, ReasoningIsFreeButCannotBeTheEnd) {
  const auto grammar = grammar::compile_answer(
      {.reasoning = {.close = "]"}, .calls = {}},
      {.reasoning = grammar::AnswerRules::Reasoning::kOpen, .content_schema = ordered_json{{"enum", {true, false}}}});
  ASSERT_TRUE(grammar.has_value());
  for (const int32_t closing : {kBracket, kBracket + 1}) {  // with and without white space behind it
    // The 0 is the end token: the model wants to end inside the reasoning, then to write "x" where JSON is due.
    start({}, testing::scripted_logits(1, {40, 41, testing::kEndToken, closing, 25, 25}));
    const Answer answer = run(request({2}, *grammar));
    EXPECT_TRUE(answer.text.starts_with("{}")) << answer.text;
    const size_t end = answer.text.find_first_not_of(" \n", answer.text.find(']') + 1);
    const std::string value = answer.text.substr(std::min(end, answer.text.size()));
    EXPECT_TRUE(value == "true" || value == "false") << answer.text;
    EXPECT_EQ(answer.finish, FinishReason::kStop);
  }
}

TEST_F(ConstraintTest, MarkupMayBeWrittenWithControlTokens) {
  const FakeTokenizer tokenizer({{5, "<call>"}, {6, "<end>"}});
  const GrammarTokens tokens(tokenizer);
  const auto grammar =
      grammar::compile_answer({.reasoning = {}, .calls = {.heads = {{"<call>", ""}}}},
                              {.calls = grammar::AnswerRules::Calls::kRequired, .tools = {{"f", {{"type", "null"}}}}});
  ASSERT_TRUE(grammar.has_value());
  for (const bool allows : {false, true}) {
    ConstraintState state({.grammar = *grammar, .allows_control = allows}, tokens,
                          {{testing::kSuppressedToken, "<call>"}, {testing::kEndToken, "<call>"}, {7, "<end>"}});
    const auto allowed = state.allowed_tokens();
    ASSERT_TRUE(allowed.has_value());
    EXPECT_EQ((*allowed)->has(testing::kSuppressedToken), allows);
    EXPECT_FALSE((*allowed)->has(testing::kEndToken));
    EXPECT_TRUE((*allowed)->has(5));
    EXPECT_FALSE((*allowed)->has(7));
    EXPECT_FALSE(state.accept("<end>"));
    EXPECT_TRUE(state.accept("<call>"));
  }
}

TEST_F(ConstraintTest, AGrammarAndAnIgnoredEndContradictEachOther) {
  start();
  Request r = request({2}, compile(kSchema));
  r.ignore_end = true;
  const auto stream = engine_->submit(r);
  ASSERT_FALSE(stream.has_value());
  EXPECT_EQ(stream.error().field(), "ignore_end");
}

TEST(GrammarTokens, LeaveOutWhatMayNotBeSampled) {
  const FakeTokenizer tokenizer(kPieces);
  const GrammarTokens tokens(tokenizer);
  EXPECT_EQ(tokens.ends(), std::vector<int32_t>{testing::kEndToken});
  EXPECT_TRUE(tokens.is_end(testing::kEndToken));
  EXPECT_FALSE(tokens.is_end(kBracket));
}

}  // namespace
}  // namespace tempo9::engine
