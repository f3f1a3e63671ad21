// The engine with real (tiny) models on both backends: who shares the batch, how prompts are cut, and what is reused of
// earlier ones, of this process or of one before it, does not change an answer.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "engine/engine.h"
#include "engine/prompt_sharing.h"
#include "engine/silent_tokenizer.h"
#include "kv/folder_support.h"
#include "support/data.h"
#include "tensor/kv_type_names.h"

namespace tempo9::engine {
namespace {

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

struct Case {
  const char* model;
  const char* backend;
  tensor::KvType kv_type;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model << " on " << c.backend << " with " << tensor::kv_type_name(c.kv_type);
}

std::unique_ptr<backends::Backend> make_backend(std::string_view name) {
  if (name == "reference") return backends::make_reference_backend();
  return backends::make_cpu_backend({.n_threads = 2, .isa = {}}).value();
}

class GoldenEngine : public ::testing::TestWithParam<Case> {
 protected:
  GoldenEngine() { spdlog::set_level(spdlog::level::off); }

  void SetUp() override {
    const std::string folder = testing::golden_path(GetParam().model);
    golden_ = read_golden(folder);
    auto file = gguf::File::open(folder + "/model.gguf");
    ASSERT_TRUE(file) << file.error().message();
    auto model = models::load_model(std::shared_ptr<const gguf::File>(*std::move(file)));
    ASSERT_TRUE(model) << model.error().message();
    model_ = *std::move(model);
  }

  // Answers to all requests, which run together as far as `options` let them.
  std::vector<std::vector<int32_t>> answers(const std::vector<Request>& requests, EngineOptions options) {
    const auto backend = make_backend(GetParam().backend);
    const SilentTokenizer tokenizer(model_.info.n_vocab);
    options.kv_type = GetParam().kv_type;
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

  // An answer down to the bits of its logits, as far as they show.
  struct Bits {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    friend bool operator==(const Bits&, const Bits&) = default;
  };
  struct Answered {
    std::vector<Bits> bits;
    int64_t n_reused = 0;
  };

  // `together`: all at once; else one after another.
  static Answered bits_of(Engine& engine, const std::vector<Request>& requests, bool together) {
    Answered answered;
    std::vector<std::shared_ptr<Stream>> streams;
    const auto read = [&](Stream& stream) {
      Bits bits;
      while (true) {
        const Event event = stream.wait();
        bits.tokens.insert(bits.tokens.end(), event.tokens.begin(), event.tokens.end());
        for (const TokenInfo& info : event.logprobs) bits.logprobs.push_back(info.chosen.logprob);
        if (!event.finish) continue;
        answered.n_reused += event.usage.cached_tokens;
        answered.bits.push_back(std::move(bits));
        return;
      }
    };
    for (const Request& request : requests) {
      streams.push_back(engine.submit(request).value());
      if (!together) read(*streams.back());
    }
    if (!together) return answered;
    for (const auto& stream : streams) read(*stream);
    return answered;
  }

  // Requests that begin alike, with their logits.
  std::vector<Request> requests_that_share() const {
    std::vector<Request> requests;
    for (const int32_t last : {39, 63, 64, 99, 159, 99, 63, 31}) requests.push_back(request(last, 12));
    for (const size_t n_alike : {20u, 64u, 70u}) {  // other texts that begin alike
      requests.push_back(request(110, 12));
      std::reverse(requests.back().prompt.begin() + static_cast<int64_t>(n_alike), requests.back().prompt.end());
    }
    for (Request& r : requests) r.logprobs = true;
    return requests;
  }

  // The golden's tokens up to and including position `last`, as far as there are any.
  Request request(int32_t last, int64_t max_tokens) const {
    last = std::min(last, static_cast<int32_t>(golden_.tokens.size()) - 1);
    Request r;
    r.prompt.assign(golden_.tokens.begin(), golden_.tokens.begin() + last + 1);
    r.max_tokens = max_tokens;
    r.sampling.temperature = 0.0f;
    return r;
  }

  Golden golden_;
  models::Model model_;
};

// Quantised weights have no place here: their activations are rounded to 8 bits, so a close second may win.
class FloatGoldenEngine : public GoldenEngine {};

class RecurrentGoldenEngine : public GoldenEngine {};

TEST_P(FloatGoldenEngine, FirstTokensAreThoseOfTheReference) {
  std::vector<Request> requests;
  for (const int32_t row : golden_.rows) requests.push_back(request(row, 1));
  const auto found = answers(requests, {.context_length = 256, .max_batch = 8});
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], std::vector<int32_t>{golden_.argmax[i]}) << "row " << golden_.rows[i];
  }
}

TEST_P(GoldenEngine, EightTogetherAnswerAsEachAlone) {
  std::vector<Request> requests;
  for (const int32_t last : {0, 7, 30, 31, 32, 63, 100, 159}) requests.push_back(request(last, 16));
  const auto alone = answers(requests, {.context_length = 256, .max_batch = 1});
  EXPECT_EQ(answers(requests, {.context_length = 256, .max_batch = 8}), alone);
  EXPECT_EQ(answers(requests, {.context_length = 256, .max_batch = 8, .max_step_rows = 11}), alone);
  EXPECT_EQ(answers(requests, {.context_length = 256, .max_batch = 8, .step_ms = 0.0}), alone) << "passes in parts";
  // Room for two full sequences at most: some pause and compute their tokens again.
  EXPECT_EQ(answers(requests, {.context_length = 256, .max_batch = 8, .max_step_rows = 64, .kv_tokens = 384}), alone);
}

TEST_P(GoldenEngine, WhatIsReusedChangesNothing) {
  const std::vector<Request> requests = requests_that_share();
  const auto backend = make_backend(GetParam().backend);
  const SilentTokenizer tokenizer(model_.info.n_vocab);
  EngineOptions options{.context_length = 256, .max_batch = 8, .kv_type = GetParam().kv_type, .kept_bytes = 0};
  const auto cold = Engine::create(*backend, model_, tokenizer, options).value();
  const Answered alone = bits_of(*cold, requests, /*together=*/false);
  EXPECT_EQ(alone.n_reused, 0);
  cold->stop();

  options.kept_bytes = size_t{64} << 20;
  for (const bool together : {false, true}) {
    options.step_ms = together ? 0.0 : StepTimes::kTargetMs;  // prompts are read in parts, or whole
    const auto warm = Engine::create(*backend, model_, tokenizer, options).value();
    for (int round = 0; round < 2; ++round) {
      const Answered again = bits_of(*warm, requests, together);
      EXPECT_GT(again.n_reused, 300) << "together " << together << " round " << round;
      EXPECT_EQ(again.bits, alone.bits) << "together " << together << " round " << round;
    }
    warm->stop();
    EXPECT_EQ(warm->stats().kv_pages_used, 0);
  }
}

// Field report E16: a template writes the header of the last answer otherwise in the next prompt.
TEST_P(RecurrentGoldenEngine, TheNextTurnIsReadFromBeforeTheHeaderOfTheLastAnswer) {
  const auto backend = make_backend(GetParam().backend);
  const SilentTokenizer tokenizer(model_.info.n_vocab);
  const EngineOptions options{
      .context_length = 256, .max_batch = 1, .kv_type = GetParam().kv_type, .kept_bytes = size_t{64} << 20};
  for (int32_t n = 96; n < 128; ++n) {  // wherever the last page begins
    const auto engine = Engine::create(*backend, model_, tokenizer, options).value();
    const Request first = request(n - 1, 4);
    Request next = first;
    const auto header = next.prompt.end() - kHeaderTokens;
    std::reverse(header, next.prompt.end());
    next.prompt.insert(next.prompt.end(), next.prompt.begin(), next.prompt.begin() + 20);
    bits_of(*engine, {first}, /*together=*/false);
    const Answered again = bits_of(*engine, {next}, /*together=*/false);
    EXPECT_EQ(again.n_reused, (n - kHeaderTokens) / tensor::kPageTokens * tensor::kPageTokens) << n;
    engine->stop();
  }
}

TEST_P(GoldenEngine, WhatComesFromDiskChangesNothing) {
  const std::vector<Request> requests = requests_that_share();
  const auto backend = make_backend(GetParam().backend);
  const SilentTokenizer tokenizer(model_.info.n_vocab);
  EngineOptions options{.context_length = 256, .max_batch = 8, .kv_type = GetParam().kv_type, .kept_bytes = 0};
  const auto cold = Engine::create(*backend, model_, tokenizer, options).value();
  const Answered alone = bits_of(*cold, requests, /*together=*/false);
  cold->stop();

  const kv::testing::TempFolder folder;
  options.kept_bytes = size_t{64} << 20;
  options.disk = {.root = folder.path(), .min_free_bytes = 0, .identity = "golden", .min_segment_bytes = 0};
  const auto before = Engine::create(*backend, model_, tokenizer, options).value();
  EXPECT_EQ(bits_of(*before, requests, /*together=*/false).bits, alone.bits);
  before->stop();
  for (const bool together : {false, true}) {
    for (const int64_t kv_tokens : {0, 384}) {  // with few pages, some sequences pause and resume
      options.kv_tokens = kv_tokens;
      const auto after = Engine::create(*backend, model_, tokenizer, options).value();
      const Answered again = bits_of(*after, requests, together);
      EXPECT_EQ(again.bits, alone.bits) << "together " << together << " tokens " << kv_tokens;
      after->stop();
      if (golden_.tokens.size() >= 160) {  // shorter ones are hardly worth restoring
        EXPECT_GE(after->stats().disk.restored_tokens, 64u) << "together " << together << " tokens " << kv_tokens;
      }
      EXPECT_EQ(after->stats().disk.damaged, 0u);
      EXPECT_EQ(after->stats().kv_pages_used, 0);
    }
  }
}

constexpr auto kF32 = tensor::KvType::kF32, kF16 = tensor::KvType::kF16, kQ8 = tensor::KvType::kQ8_0;
constexpr Case kFloatCases[]{
    {"llama", "reference", kF32}, {"gemma3", "reference", kF32}, {"llama", "cpu", kF16}, {"gemma3", "cpu", kF16}};
constexpr Case kOtherCases[]{{"gpt-oss", "cpu", kF16},   {"mistral3", "cpu", kF16},     {"qwen3moe", "cpu", kF16},
                             {"gemma4", "cpu", kF16},    {"gemma4-e", "cpu", kQ8},      {"qwen35", "cpu", kF16},
                             {"qwen35moe", "cpu", kF16}, {"qwen35", "reference", kF32}, {"llama", "cpu", kQ8},
                             {"gemma3", "cpu", kQ8},     {"gpt-oss", "cpu", kQ8},       {"qwen35", "cpu", kQ8},
                             {"gemma4", "cpu", kQ8},     {"llama", "reference", kQ8},   {"gemma4-e", "cpu", kF16}};
INSTANTIATE_TEST_SUITE_P(Float, FloatGoldenEngine, ::testing::ValuesIn(kFloatCases));
INSTANTIATE_TEST_SUITE_P(Float, GoldenEngine, ::testing::ValuesIn(kFloatCases));
INSTANTIATE_TEST_SUITE_P(Recurrent, RecurrentGoldenEngine, ::testing::Values(Case{"qwen35", "cpu", kF16}));
INSTANTIATE_TEST_SUITE_P(Other, GoldenEngine, ::testing::ValuesIn(kOtherCases));
INSTANTIATE_TEST_SUITE_P(Quantised, GoldenEngine,
                         ::testing::Values(Case{"quant/Q4_K_M", "cpu", kF16}, Case{"quant/Q4_K_M", "cpu", kQ8},
                                           Case{"quant/Q8_0", "cpu", kF16}));

}  // namespace
}  // namespace tempo9::engine
