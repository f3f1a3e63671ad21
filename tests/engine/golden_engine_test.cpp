// The engine with real (tiny) models on the reference backend: who shares the batch, and how prompts are cut, does not
// change an answer.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/reference/reference.h"
#include "engine/engine.h"
#include "engine/fake_model.h"

namespace tempo9::engine {
namespace {

// The text does not matter here, and no token ends the answer.
class SilentTokenizer : public testing::FakeTokenizer {
 public:
  explicit SilentTokenizer(int64_t n_tokens) : n_tokens_(n_tokens) {}
  int64_t n_tokens() const override { return n_tokens_; }
  std::string_view token_text(int32_t) const override { return {}; }
  bool is_end_of_generation(int32_t) const override { return false; }
  std::span<const int32_t> suppressed() const override { return {}; }

 private:
  int64_t n_tokens_;
};

struct Golden {
  std::vector<int32_t> tokens;
  std::vector<int32_t> rows;
  std::vector<int32_t> argmax;
};

Golden read_golden(const std::string& folder) {
  std::ifstream file(folder + "/expect.json");
  const auto json = nlohmann::json::parse(file);
  return {.tokens = json.at("tokens"), .rows = json.at("rows"), .argmax = json.at("argmax")};
}

class GoldenEngine : public ::testing::TestWithParam<const char*> {
 protected:
  GoldenEngine() { spdlog::set_level(spdlog::level::off); }

  void SetUp() override {
    const std::string folder = std::string(T9_SOURCE_DIR "/tests/goldens/") + GetParam();
    golden_ = read_golden(folder);
    auto file = gguf::File::open(folder + "/model.gguf");
    ASSERT_TRUE(file) << file.error().message();
    auto model = models::load_model(std::shared_ptr<const gguf::File>(*std::move(file)));
    ASSERT_TRUE(model) << model.error().message();
    model_ = *std::move(model);
  }

  // Answers to all requests, which run together as far as `options` let them.
  std::vector<std::vector<int32_t>> answers(const std::vector<Request>& requests, EngineOptions options) {
    const auto backend = backends::make_reference_backend();
    const SilentTokenizer tokenizer(model_.info.n_vocab);
    options.kv_type = backend->kv_types().front();
    auto engine = Engine::create(*backend, model_, tokenizer, options);
    EXPECT_TRUE(engine) << engine.error().message();
    std::vector<std::shared_ptr<Stream>> streams;
    for (const Request& request : requests) streams.push_back((*engine)->submit(request).value());
    std::vector<std::vector<int32_t>> answers;
    for (const auto& stream : streams) {
      const Event last = stream->wait();  // no token has text, so there is one event
      EXPECT_EQ(last.finish, FinishReason::kLength);
      answers.push_back(last.tokens);
    }
    (*engine)->stop();
    EXPECT_EQ((*engine)->stats().kv_pages_used, 0);
    return answers;
  }

  // The golden's tokens up to and including position `last`.
  Request request(int32_t last, int64_t max_tokens) const {
    Request r;
    r.prompt.assign(golden_.tokens.begin(), golden_.tokens.begin() + last + 1);
    r.max_tokens = max_tokens;
    r.sampling.temperature = 0.0f;
    return r;
  }

  Golden golden_;
  models::Model model_;
};

TEST_P(GoldenEngine, FirstTokensAreThoseOfTheReference) {
  std::vector<Request> requests;
  for (const int32_t row : golden_.rows) requests.push_back(request(row, 1));
  const auto found = answers(requests, {.context_length = 256, .max_batch = 8});
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], std::vector<int32_t>{golden_.argmax[i]}) << "row " << golden_.rows[i];
  }
}

TEST_P(GoldenEngine, EightTogetherAnswerAsEachAlone) {
  std::vector<Request> requests;
  for (const int32_t last : {0, 7, 30, 31, 32, 63, 100, 159}) requests.push_back(request(last, 24));
  const auto alone = answers(requests, {.context_length = 256, .max_batch = 1});
  EXPECT_EQ(answers(requests, {.context_length = 256, .max_batch = 8}), alone);
  EXPECT_EQ(answers(requests, {.context_length = 256, .max_batch = 8, .max_step_rows = 11}), alone);
  // Room for two full sequences at most: some pause and compute their tokens again.
  EXPECT_EQ(answers(requests, {.context_length = 256, .max_batch = 8, .max_step_rows = 64, .kv_tokens = 384}), alone);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenEngine, ::testing::Values("llama", "gemma3"));

}  // namespace
}  // namespace tempo9::engine
