// SmolLM2-135M-Instruct through the engine: the cpu backend writes what the reference writes, and who shares the batch
// changes nothing.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "engine/engine.h"
#include "support/data.h"

namespace tempo9::engine {
namespace {

constexpr const char* kQuestions[] = {
    "Explain in two sentences why the sky is blue.",
    "Write a haiku about the sea.",
    "List three uses of copper.",
    "What is the capital of France?",
    "Translate 'good morning' into Spanish.",
    "Summarise the water cycle.",
    "Give me a recipe for pancakes.",
    "Write a Python function that reverses a string.",
    "Who wrote Romeo and Juliet?",
    "What is the difference between a virus and a bacterium?",
    "Name five animals that live in the desert.",
    "How do I boil an egg?",
    "Tell me a short story about a lost dog.",
    "What causes earthquakes?",
    "Write an email asking for a day off.",
    "Explain recursion to a child.",
    "What are the primary colours?",
    "Describe the taste of an orange.",
    "Why do leaves change colour in autumn?",
    "Give three tips for learning a language.",
};
constexpr int64_t kTokens = 64;

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    const std::string path = tempo9::testing::model_path(tempo9::testing::kSmolLm2);
    T9_NEED_DATA(path);
    auto file = gguf::File::open(path);
    ASSERT_TRUE(file) << file.error().message();
    auto tokenizer = tokenizer::Tokenizer::create((*file)->metadata());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    auto model = models::load_model(std::shared_ptr<const gguf::File>(*std::move(file)));
    ASSERT_TRUE(model) << model.error().message();
    tokenizer_ = *std::move(tokenizer);
    model_ = *std::move(model);
  }

  struct Answer {
    std::vector<int32_t> tokens;
    std::vector<TokenInfo> logprobs;  // one per token
  };

  // Greedy answers to all questions, `max_batch` at a time.
  std::vector<Answer> answers(backends::Backend& backend, int64_t max_batch, size_t n_questions) {
    auto engine =
        Engine::create(backend, model_, *tokenizer_,
                       {.context_length = 512, .max_batch = max_batch, .kv_type = backend.kv_types().front()});
    EXPECT_TRUE(engine) << engine.error().message();
    std::vector<std::shared_ptr<Stream>> streams;
    for (size_t i = 0; i < n_questions; ++i) {
      const std::string text =
          std::string("<|im_start|>user\n") + kQuestions[i] + "<|im_end|>\n<|im_start|>assistant\n";
      Request request{.prompt = tokenizer_->encode(text, {.parse_special = true}).value(), .max_tokens = kTokens};
      request.sampling.temperature = 0.0f;
      request.ignore_end = true;
      request.logprobs = true;
      request.top_logprobs = 5;
      streams.push_back((*engine)->submit(std::move(request)).value());
    }
    std::vector<Answer> answers;
    for (const auto& stream : streams) {
      answers.emplace_back();
      for (bool ended = false; !ended;) {
        const Event event = stream->wait();
        EXPECT_FALSE(event.error) << event.error->message();
        Answer& answer = answers.back();
        for (const TokenInfo& info : event.logprobs) {
          answer.tokens.push_back(info.chosen.token);
          answer.logprobs.push_back(info);
        }
        ended = event.finish || event.error;
      }
    }
    return answers;
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  models::Model model_;
};

// How much less likely than its own choice the reference finds `token`; infinite when it is not among its first five.
float margin(const TokenInfo& reference, int32_t token) {
  for (const TokenLogprob& other : reference.top) {
    if (other.token == token) return reference.chosen.logprob - other.logprob;
  }
  return std::numeric_limits<float>::infinity();
}

// The cpu rounds activations to 8 bits, which moves this model's logits by 2.7e-2 of their size (llama.cpp: 2.8e-2). So
// answers part sooner or later, but only where the reference has two tokens nearly as likely.
TEST_F(SmolLm2, CpuLeavesTheReferenceOnlyAtNearTies) {
  const auto cpu = backends::make_cpu_backend({.n_threads = 2, .isa = {}}).value();
  const auto reference = backends::make_reference_backend();
  const std::vector<Answer> found = answers(*cpu, 16, std::size(kQuestions));
  const std::vector<Answer> expected = answers(*reference, 16, std::size(kQuestions));
  size_t n_equal = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].tokens.size(), expected[i].tokens.size());
    const auto [mine, its] = std::ranges::mismatch(found[i].tokens, expected[i].tokens);
    const auto at = static_cast<size_t>(mine - found[i].tokens.begin());
    if (its == expected[i].tokens.end()) {
      ++n_equal;
    } else {
      EXPECT_LT(margin(expected[i].logprobs[at], *mine), 0.5f) << kQuestions[i] << ", token " << at;
    }
  }
  std::printf("%zu of %zu answers of %d tokens are equal\n", n_equal, found.size(), static_cast<int>(kTokens));
}

TEST_F(SmolLm2, EightTogetherAnswerAsEachAlone) {
  const auto cpu = backends::make_cpu_backend({.n_threads = 2, .isa = {}}).value();
  const std::vector<Answer> together = answers(*cpu, 8, 8), alone = answers(*cpu, 1, 8);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(together[i].tokens, alone[i].tokens) << kQuestions[i];
}

}  // namespace
}  // namespace tempo9::engine
