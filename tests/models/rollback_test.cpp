// Rows on trial, of which some are taken back (spec models 7.5): logits, states and pages are bit for bit those of a
// sequence that never had the rejected rows.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "cli/evaluate.h"
#include "goldens.h"
#include "kv/cache.h"
#include "support/data.h"
#include "tensor/kv_type_names.h"
#include "test_backends.h"

namespace tempo9 {
namespace {

struct Case {
  std::string model;  // under tests/goldens, or a file of the trained model
  BackendCase backend;
  tensor::KvType kv_type = tensor::KvType::kF16;

  bool is_trained() const { return model.ends_with(".gguf"); }
  std::string path() const {
    return is_trained() ? testing::reference_path("models/" + model) : testing::golden_path(model + "/model.gguf");
  }
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model << " on " << c.backend.name << " " << kv_type_name(c.kv_type);
}

// Tokens that a sequence is to have in the end, and how far it is.
struct Text {
  std::vector<int32_t> tokens;
  kv::SequenceId id = {};
  int64_t n_done = 0;
  std::vector<float> logits = {};  // of the rows that stayed
};

// The rows of one sequence in a pass: `n_right` of the text, then `n_wrong` others, of which none stays.
struct Part {
  Text* text;
  int64_t n_right = 0;
  int64_t n_wrong = 0;
};

class Rollback : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kMaxRows = 64;

  void SetUp() override {
    const std::string path = GetParam().path();
    if (GetParam().is_trained()) T9_NEED_DATA(path);
    auto file = gguf::File::open(path);
    ASSERT_TRUE(file.has_value()) << file.error().message();
    auto model = models::load_model(*std::move(file));
    ASSERT_TRUE(model.has_value()) << model.error().message();
    model_ = *std::move(model);
    backend_ = GetParam().backend.make();
    executable_ = backend_
                      ->compile(model_.program, model_.weights,
                                {.max_rows = kMaxRows, .max_outputs = kMaxRows, .max_trial_rows = kMaxRows})
                      .value();
  }

  std::unique_ptr<kv::Cache> make_cache() {
    return kv::Cache::create(*backend_, model_.program.kv_layers, model_.program.state_layers,
                             {.type = GetParam().kv_type, .max_tokens = 2048, .max_sequences = 4, .max_trials = 4})
        .value();
  }

  int32_t random_token() { return static_cast<int32_t>(random_() % static_cast<uint64_t>(model_.info.n_vocab)); }
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  Text make_text(kv::Cache& cache, int64_t n) {
    Text text{.tokens = std::vector<int32_t>(static_cast<size_t>(n)), .id = cache.add_sequence().value()};
    for (int32_t& token : text.tokens) token = random_token();
    return text;
  }

  // A pass; with `on_trial` the wrong rows are taken back, and without there are none.
  void run(kv::Cache& cache, std::vector<Part> parts, bool on_trial) {
    std::vector<int32_t> tokens, sequences, slots, outputs;
    std::vector<kv::SequenceId> ids;
    for (const Part& part : parts) {
      const int64_t n_rows = part.n_right + part.n_wrong;
      ASSERT_TRUE(cache.grow(part.text->id, part.text->n_done + n_rows));
      if (on_trial) cache.begin_trial(part.text->id);
      for (int64_t i = 0; i < n_rows; ++i) {
        const auto slot = static_cast<size_t>(part.text->n_done + i);
        tokens.push_back(i < part.n_right ? part.text->tokens[slot] : random_token());
        sequences.push_back(static_cast<int32_t>(ids.size()));
        slots.push_back(static_cast<int32_t>(slot));
        outputs.push_back(static_cast<int32_t>(outputs.size()));
      }
      ids.push_back(part.text->id);
    }
    const int64_t n_vocab = model_.info.n_vocab;
    std::vector<float> logits(outputs.size() * static_cast<size_t>(n_vocab));
    executable_->run({.tokens = tokens,
                      .sequences = sequences,
                      .slots = slots,
                      .positions = slots,
                      .outputs = outputs,
                      .kv = cache.view(ids),
                      .states = cache.states(ids)},
                     {.logits = {logits.data(), std::ssize(outputs), n_vocab, n_vocab}});
    std::vector<int64_t> n_rows;
    const float* row = logits.data();
    for (const Part& part : parts) {
      part.text->logits.insert(part.text->logits.end(), row, row + part.n_right * n_vocab);
      row += (part.n_right + part.n_wrong) * n_vocab;
      part.text->n_done += part.n_right;
      if (on_trial) cache.end_trial(part.text->id, part.n_wrong == 0);
      n_rows.push_back(part.n_wrong > 0 ? part.n_right : 0);
      cache.set_length(part.text->id, part.text->n_done);
      cache.truncate(part.text->id, part.text->n_done);
      EXPECT_EQ(cache.n_slots(part.text->id), (part.text->n_done + 31) / 32 * 32);
    }
    if (on_trial) executable_->replay(cache.states(ids), n_rows);
  }

  std::vector<float> states_of(kv::Cache& cache, kv::SequenceId id) const {
    std::vector<float> floats;
    const tensor::StateView view = cache.states({&id, 1});
    for (int32_t l = 0; l < std::ssize(model_.program.state_layers); ++l) {
      const float* state = view.state(l, 0);
      floats.insert(floats.end(), state, state + model_.program.state_layers[static_cast<size_t>(l)].floats());
    }
    return floats;
  }

  static void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
    ASSERT_EQ(a.size(), b.size()) << what;
    if (a.empty()) return;
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
  }

  models::Model model_;
  std::unique_ptr<backends::Backend> backend_;
  std::unique_ptr<backends::Executable> executable_;
  std::mt19937_64 random_{7};
};

TEST_P(Rollback, LeavesNoTrace) {
  const auto cache = make_cache();
  std::vector<Text> texts;
  for (const int64_t n : {75, 40, 61}) texts.push_back(make_text(*cache, n));
  for (int round = 0; texts[0].n_done < 75 || texts[1].n_done < 40 || texts[2].n_done < 61; ++round) {
    std::vector<Part> parts;
    const bool on_trial = below(8) > 0;
    for (Text& text : texts) {
      const int64_t left = std::ssize(text.tokens) - text.n_done;
      if (left == 0 || below(4) == 0) continue;
      // None may stay, which no step of the engine asks for, and more than a group of the delta net's tokens may.
      const int64_t n_right = std::min(left, below(10) == 0 ? 18 : below(6));
      const int64_t n_wrong = on_trial && below(3) > 0 ? below(7) : 0;
      if (n_right + n_wrong > 0) parts.push_back({&text, n_right, n_wrong});
    }
    if (!parts.empty()) run(*cache, parts, on_trial);
    ASSERT_LT(round, 1000);
  }
  const auto untouched = make_cache();
  for (const Text& text : texts) {
    Text alone{.tokens = text.tokens, .id = untouched->add_sequence().value()};
    while (alone.n_done < std::ssize(alone.tokens)) {
      run(*untouched, {{&alone, std::min<int64_t>(5, std::ssize(alone.tokens) - alone.n_done), 0}}, false);
    }
    expect_same_bits(text.logits, alone.logits, "logits");
    expect_same_bits(states_of(*cache, text.id), states_of(*untouched, alone.id), "states");
  }
}

// Built twice: the trained model takes its time and is not in the repository.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
#ifdef T9_TRAINED_MODEL
  for (const char* file : {"tempo9-tiny-qwen35-mtp.Q8_0.gguf", "tempo9-tiny-qwen35-mtp.Q4_K_M.gguf"}) {
    cases.push_back({file, cpu_backends().back()});
  }
#else
  for (const BackendCase& backend : all_backends()) {
    for (const char* model : {"qwen35", "qwen35moe", "llama", "gpt-oss"}) cases.push_back({model, backend});
  }
  BackendCase threads = cpu_backends().back();
  threads.n_threads = 3;
  threads.name += "_3_threads";
  cases.push_back({"qwen35", threads});
  for (const char* model : {"qwen35", "llama"}) cases.push_back({model, cpu_backends().back(), tensor::KvType::kQ8_0});
#endif
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<Case>& param) {
  std::string name = param.param.model + "_on_" + param.param.backend.name;
  if (param.param.kv_type == tensor::KvType::kQ8_0) name += "_q8_0";
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Rollback, ::testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace tempo9
