// Speculation changes no answer: tokens and log-probabilities are bit for bit those without, whatever the depth, who
// shares the batch, what is reused, how tokens are chosen and what the answer is held to.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "engine/engine.h"
#include "engine/read_bytes.h"
#include "kv/sizes.h"
#include "support/data.h"

namespace tempo9::engine {
namespace {

using nlohmann::ordered_json;

struct Case {
  const char* model;  // under tests/goldens, or a file of the trained model
  const char* backend;

  bool is_trained() const { return std::string_view(model).ends_with(".gguf"); }
  std::string path() const {
    return is_trained() ? testing::reference_path(std::string("models/") + model)
                        : testing::golden_path(std::string(model) + "/model.gguf");
  }
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.model << " on " << c.backend; }

std::string case_name(const ::testing::TestParamInfo<Case>& param) {
  std::string name = std::string(param.param.model) + "_on_" + param.param.backend;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

// An answer down to the bits of its logits, as far as they show.
struct Bits {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  FinishReason finish = FinishReason::kStop;
  friend bool operator==(const Bits&, const Bits&) = default;
};

struct Answers {
  std::vector<Bits> bits;
  int64_t n_reused = 0;
  int64_t n_drafted = 0;
  int64_t n_accepted = 0;
};

Bits read_all(Stream& stream, Answers& answers) {
  Bits bits;
  while (true) {
    const Event event = stream.wait();
    EXPECT_FALSE(event.error) << event.error->message();
    bits.text += event.text;
    bits.tokens.insert(bits.tokens.end(), event.tokens.begin(), event.tokens.end());
    for (const TokenInfo& info : event.logprobs) {
      bits.logprobs.push_back(info.chosen.logprob);
      for (const TokenLogprob& top : info.top) bits.logprobs.push_back(top.logprob);
    }
    if (!event.finish && !event.error) continue;
    bits.finish = event.finish.value_or(FinishReason::kStop);
    answers.n_reused += event.usage.cached_tokens;
    answers.n_drafted += event.usage.drafted_tokens;
    answers.n_accepted += event.usage.accepted_tokens;
    return bits;
  }
}

class Speculation : public ::testing::TestWithParam<Case> {
 protected:
  Speculation() { spdlog::set_level(spdlog::level::off); }

  void SetUp() override {
    const std::string path = GetParam().path();
    if (GetParam().is_trained()) T9_NEED_DATA(path);
    auto file = gguf::File::open(path);
    ASSERT_TRUE(file) << file.error().message();
    file_ = *std::move(file);
    auto model = models::load_model(file_);
    ASSERT_TRUE(model) << model.error().message();
    model_ = *std::move(model);
    auto tokenizer = tokenizer::Tokenizer::create(file_->metadata());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    tokenizer_ = *std::move(tokenizer);
    const bool is_reference = std::string_view(GetParam().backend) == "reference";
    backend_ = is_reference ? backends::make_reference_backend()
                            : backends::make_cpu_backend({.n_threads = 2, .isa = {}}).value();
  }

  std::unique_ptr<Engine> make_engine(const SpeculationOptions& speculation, int64_t max_batch = 8,
                                      size_t kept_bytes = 0, int64_t kv_tokens = 0) {
    auto engine = Engine::create(*backend_, model_, *tokenizer_,
                                 {.context_length = 512,
                                  .max_batch = max_batch,
                                  .kv_type = backend_->kv_types().front(),
                                  .kv_tokens = kv_tokens,
                                  .kept_bytes = kept_bytes,
                                  .speculation = speculation});
    EXPECT_TRUE(engine) << engine.error().message();
    return *std::move(engine);
  }

  // `together`: all at once; else one after another.
  static Answers ask(Engine& engine, const std::vector<Request>& requests, bool together) {
    Answers answers;
    std::vector<std::shared_ptr<Stream>> streams;
    for (const Request& request : requests) {
      streams.push_back(engine.submit(request).value());
      if (!together) answers.bits.push_back(read_all(*streams.back(), answers));
    }
    if (!together) return answers;
    for (const auto& stream : streams) answers.bits.push_back(read_all(*stream, answers));
    return answers;
  }

  // Some text, twice and a half: what comes next can be looked up.
  std::vector<int32_t> prompt(size_t n, uint32_t seed) const {
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t x = (i % 17 + seed) * 2654435761u;
      tokens.push_back(static_cast<int32_t>((x >> 8) % static_cast<uint32_t>(tokenizer_->n_tokens() - 40)));
    }
    return tokens;
  }

  // Greedy and sampled, with penalties, stop strings and limits.
  std::vector<Request> requests() const {
    std::vector<Request> all;
    const auto add = [&](std::vector<int32_t> tokens, int64_t max_tokens) -> Request& {
      Request request;
      request.prompt = std::move(tokens);
      request.max_tokens = max_tokens;
      request.logprobs = true;
      request.top_logprobs = 2;
      request.sampling.temperature = 0.0f;
      request.ignore_end = all.size() % 2 == 0;
      all.push_back(std::move(request));
      return all.back();
    };
    if (GetParam().is_trained()) {
      const auto json = nlohmann::json::parse(std::ifstream(testing::reference_path("models/prompts.json")));
      for (const auto& recorded : json.at("prompts")) {
        if (recorded.at("prompt_ids").size() < 400 && all.size() < 5) add(recorded.at("prompt_ids"), 48);
      }
    } else {
      add(prompt(40, 1), 40);
      add(prompt(64, 2), 24);
      add({5}, 33);
    }
    const std::vector<int32_t> first = all.front().prompt;
    for (const uint64_t seed : {1u, 2u}) {
      Request& sampled = add(first, 32);
      sampled.sampling = {.temperature = 0.9f, .top_p = 0.9f, .top_k = 40, .seed = seed};
    }
    Request& penalised = add(first, 32);
    penalised.sampling = {.temperature = 0.5f, .repetition_penalty = 1.1f, .presence_penalty = 0.2f, .seed = 3};
    add(first, 24).stop = {std::string(tokenizer_->token_text(first[3])), "e"};
    add(first, 24).thought_limit = {.max_tokens = 5, .is_open = true, .close = "</think>", .end = {first[2], first[0]}};
    return all;
  }

  std::shared_ptr<const gguf::File> file_;
  models::Model model_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<backends::Backend> backend_;
};

std::vector<SpeculationOptions> all_options() {
  std::vector<SpeculationOptions> options;
  for (const int64_t depth : {1, 2, 3, 4, 5, 6}) options.push_back({.max_depth = depth, .always = true});
  options.push_back({.max_depth = kMaxDepth});  // auto
  return options;
}

std::string name_of(const SpeculationOptions& options) {
  return (options.always ? "always " : "up to ") + std::to_string(options.max_depth);
}

TEST_P(Speculation, ChangesNoAnswerAloneOrTogether) {
  const std::vector<Request> all = requests();
  const Answers plain = ask(*make_engine({}), all, /*together=*/false);
  EXPECT_EQ(plain.n_drafted, 0);
  for (const SpeculationOptions& options : all_options()) {
    for (const bool together : {false, true}) {
      if (!together && options.always && options.max_depth != 3) continue;  // alone it is the simpler case
      const auto engine = make_engine(options);
      const Answers answers = ask(*engine, all, together);
      EXPECT_EQ(answers.bits, plain.bits) << name_of(options) << ", together " << together;
      if (options.always) {
        EXPECT_GT(answers.n_drafted, 0) << name_of(options);
      }
      engine->stop();
      EXPECT_EQ(engine->stats().kv_pages_used, 0);
      const SpeculationStats stats = engine->stats().speculation;
      uint64_t n_proposed = 0;
      for (const DrafterStats& drafter : stats.drafters) {
        for (const uint64_t n : drafter.proposed) n_proposed += n;
      }
      EXPECT_EQ(n_proposed, static_cast<uint64_t>(answers.n_drafted));
    }
  }
}

TEST_P(Speculation, ChangesNothingWarmOrWhenPagesAreFew) {
  std::vector<Request> all = requests();
  for (const size_t n : {30u, 33u}) {  // texts that begin alike
    all.push_back(all.front());
    all.back().prompt.resize(std::min(n, all.front().prompt.size()));
  }
  const Answers plain = ask(*make_engine({}), all, false);
  const Answers plain_warm = ask(*make_engine({}, 8, size_t{64} << 20), all, false);
  for (const int64_t depth : {2, 5}) {
    const SpeculationOptions options{.max_depth = depth, .always = true};
    const auto warm = make_engine(options, 8, size_t{64} << 20);
    for (int round = 0; round < 2; ++round) {
      const Answers answers = ask(*warm, all, /*together=*/round == 1);
      EXPECT_EQ(answers.bits, plain.bits) << name_of(options) << ", round " << round;
      // Field report G07: prefix reuse is as good as without.
      if (round == 0) {
        EXPECT_EQ(answers.n_reused, plain_warm.n_reused) << name_of(options);
      }
    }
    // Room for one full sequence: some pause, drafts get what is left.
    const Answers tight = ask(*make_engine(options, 8, 0, 512), all, true);
    EXPECT_EQ(tight.bits, plain.bits) << name_of(options);
  }
}

TEST_P(Speculation, ChangesNothingUnderAGrammar) {
  const ordered_json schema = {
      {"type", "object"},
      {"properties",
       {{"names",
         {{"type", "array"}, {"items", {{"enum", {"first name", "second name"}}}}, {"minItems", 3}, {"maxItems", 5}}},
        {"ok", {{"type", "boolean"}}}}},
      {"required", {"names", "ok"}},
      {"additionalProperties", false}};
  const auto grammar = grammar::Grammar::compile(schema).value();
  std::vector<Request> all = requests();
  for (Request& request : all) {
    request.constraint.grammar = grammar;
    request.max_tokens = 80;
    request.stop.clear();
    request.ignore_end = false;
  }
  const Answers plain = ask(*make_engine({}), all, false);
  for (const SpeculationOptions& options : all_options()) {
    const Answers answers = ask(*make_engine(options), all, true);
    EXPECT_EQ(answers.bits, plain.bits) << name_of(options);
    if (options.always) {
      EXPECT_GT(answers.n_accepted, 0) << name_of(options);
    }
  }
}

TEST_P(Speculation, DraftsMadeWrongChangeNothing) {
  const std::vector<Request> all = requests();
  const Answers plain = ask(*make_engine({}), all, false);
  for (const SpeculationOptions& options : {SpeculationOptions{.max_depth = 3, .always = true, .wrong_share = 0.8},
                                            SpeculationOptions{.max_depth = kMaxDepth, .wrong_share = 0.8}}) {
    const auto engine = make_engine(options);
    const Answers answers = ask(*engine, all, true);
    EXPECT_EQ(answers.bits, plain.bits) << name_of(options);
    if (options.always) {
      EXPECT_GT(answers.n_drafted, 0);
      EXPECT_LT(static_cast<double>(answers.n_accepted), 0.3 * static_cast<double>(answers.n_drafted));
    }
  }
}

// What guessing takes is part of the budget, and fills it to the byte.
TEST_P(Speculation, ItsMemoryIsInTheBudget) {
  constexpr size_t kBudget = size_t{512} << 20;
  constexpr int64_t kBatch = 4, kDepth = 3;
  EngineOptions options{
      .context_length = 512, .max_batch = kBatch, .kv_type = backend_->kv_types().front(), .memory_bytes = kBudget};
  const auto [without, plain] = plan_engine_memory(*backend_, model_, options).value();
  EXPECT_EQ(without.speculation, 0u);
  EXPECT_EQ(without.trial_states, 0);
  options.speculation.max_depth = kDepth;
  const auto [needs, plan] = plan_engine_memory(*backend_, model_, options).value();
  // Rows that may be taken back: those that give logits.
  const size_t n_trial_rows = kBatch * (1 + kDepth);
  size_t expected = n_trial_rows * trial_row_bytes(model_.program);
  EXPECT_EQ(trial_row_bytes(model_.program) > 0, needs.state > 0);
  if (model_.draft) {
    // The block sees a step's rows and what waits of each sequence.
    const int64_t n_rows = options.max_step_rows + kBatch * tensor::kPageTokens;
    const auto& program = model_.draft->program;
    const int64_t cols = program.values[static_cast<size_t>(program.hidden)].cols;
    expected += activation_bytes(program, model_.info.n_vocab, n_rows, kBatch);
    expected += static_cast<size_t>((options.max_step_rows + 2 * n_rows + kBatch) * cols) * sizeof(float);
    EXPECT_GT(needs.page, without.page) << "the block has K and V of its own";
  }
  EXPECT_EQ(needs.speculation, expected);
  EXPECT_EQ(needs.trial_states, kBatch);
  EXPECT_GT(needs.activations, without.activations) << "more rows give logits";
  const size_t used = needs.fixed() + static_cast<size_t>(plan.pages) * needs.page +
                      static_cast<size_t>(plan.kept_states) * needs.state;
  EXPECT_LE(used, kBudget);
  const auto engine = Engine::create(*backend_, model_, *tokenizer_, options).value();
  EXPECT_EQ(engine->stats().memory.speculation_bytes, expected);
  EXPECT_EQ(engine->stats().kv_pages_total, plan.pages);
}

TEST_P(Speculation, BytesReadAreThoseOfTheFile) {
  const ReadBytes bytes(model_, *backend_, model_.program.kv_layers, backend_->kv_types().front());
  uint64_t matrices = 0;
  for (const tensor::WeightView& weight : model_.weights) matrices += weight.rows > 1 ? weight.size_bytes() : 0;
  // One row leaves out experts, and of the table of embeddings all rows but one where it is not the head too.
  EXPECT_LE(bytes.weights(1, 1), matrices + 65536);
  EXPECT_LT(bytes.weights(1, 0), bytes.weights(1, 1)) << "the head";
  EXPECT_LT(bytes.weights(1, 1), bytes.weights(500, 1));
  EXPECT_GE(static_cast<double>(bytes.weights(500, 1)), 0.8 * static_cast<double>(matrices));
  EXPECT_EQ(bytes.kv(32), kv::page_bytes(*backend_, model_.program.kv_layers, backend_->kv_types().front()));
}

#ifdef T9_TRAINED_MODEL
// A drafter that is nearly always right: the trained model's own block, on what it was trained on.
TEST_P(Speculation, OfATrainedModelIsMostlyRight) {
  std::vector<Request> all = requests();
  std::erase_if(all, [](const Request& request) { return request.sampling.temperature > 0.0f; });
  const auto engine = make_engine({.max_depth = 2, .always = true});
  const Answers answers = ask(*engine, all, true);
  EXPECT_GT(static_cast<double>(answers.n_accepted), 0.6 * static_cast<double>(answers.n_drafted));
  EXPECT_GT(engine->stats().speculation.drafters[static_cast<size_t>(Drafter::kBlock)].accepted[1], 20u);
}
#endif

// Built twice: the trained model takes its time and is not in the repository.
#ifdef T9_TRAINED_MODEL
constexpr Case kCases[]{{"tempo9-tiny-qwen35-mtp.Q8_0.gguf", "cpu"}, {"tempo9-tiny-qwen35-mtp.Q4_K_M.gguf", "cpu"}};
#else
constexpr Case kCases[]{{"llama", "cpu"},  {"gemma3", "cpu"},    {"gpt-oss", "cpu"},     {"gemma4-e", "cpu"},
                        {"qwen35", "cpu"}, {"qwen35moe", "cpu"}, {"qwen35", "reference"}};
#endif
INSTANTIATE_TEST_SUITE_P(All, Speculation, ::testing::ValuesIn(kCases), case_name);

}  // namespace
}  // namespace tempo9::engine
