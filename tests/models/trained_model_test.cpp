// A small qwen35 that has been trained (README.md beside it): with its recorded answers given back to it, each token is
// the one that it prefers, and the block that drafts foresees most of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/evaluate.h"
#include "support/data.h"
#include "test_backends.h"

namespace tempo9 {
namespace {

struct Case {
  const char* file;  // "Q8_0"
  bool on_reference = false;
  // The recorded answers come from f32 activations. Where the best logit led the second by less than this, another
  // token may win.
  double least_lead = 0.0;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.file << (c.on_reference ? " on reference" : " on cpu"); }

std::string model_path(const char* file) {
  return testing::reference_path(std::string("models/tempo9-tiny-qwen35-mtp.") + file + ".gguf");
}

// A conversation: what was asked, what was answered, and by how much each token of the answer led.
struct Recording {
  std::string name;
  std::vector<int32_t> tokens;
  size_t n_prompt = 0;
  std::vector<double> leads;
};

std::vector<Recording> read_recordings(const char* file) {
  const auto json = nlohmann::json::parse(std::ifstream(testing::reference_path("models/prompts.json")));
  std::vector<Recording> recordings;
  for (const auto& prompt : json.at("prompts")) {
    const auto& answer = prompt.at("by_file").at(file);
    Recording recording{.name = prompt.at("name"), .tokens = prompt.at("prompt_ids"), .leads = answer.at("lead")};
    recording.n_prompt = recording.tokens.size();
    const std::vector<int32_t> ids = answer.at("greedy_ids");
    recording.tokens.insert(recording.tokens.end(), ids.begin(), ids.end());
    recordings.push_back(std::move(recording));
  }
  return recordings;
}

// A sink that keeps the best token of each row.
cli::LogitsSink best_tokens_to(std::vector<int32_t>& best) {
  return [&best](tensor::MatView<const float> logits) -> Result<void> {
    for (int64_t r = 0; r < logits.rows; ++r) {
      const auto row = logits.row_span(r);
      best.push_back(static_cast<int32_t>(std::ranges::max_element(row) - row.begin()));
    }
    return {};
  };
}

class TrainedQwen35 : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string path = model_path(GetParam().file);
    T9_NEED_DATA(path);
    auto file = gguf::File::open(path);
    ASSERT_TRUE(file.has_value()) << file.error().message();
    auto model = models::load_model(*std::move(file));
    ASSERT_TRUE(model.has_value()) << model.error().message();
    model_ = *std::move(model);
    backend_ = GetParam().on_reference ? backends::make_reference_backend() : backends::make_cpu_backend({}).value();
  }

  models::Model model_;
  std::unique_ptr<backends::Backend> backend_;
};

TEST_P(TrainedQwen35, PrefersWhatItAnswered) {
  size_t n_tokens = 0;
  for (const Recording& recording : read_recordings(GetParam().file)) {
    std::vector<int32_t> rows(recording.leads.size());
    std::iota(rows.begin(), rows.end(), static_cast<int32_t>(recording.n_prompt) - 1);
    std::vector<int32_t> best;
    const auto result = cli::evaluate(*backend_, model_, recording.tokens, rows, {.chunk = 100}, best_tokens_to(best));
    ASSERT_TRUE(result.has_value()) << result.error().message();
    ASSERT_EQ(best.size(), rows.size());
    for (size_t i = 0; i < best.size(); ++i) {
      if (recording.leads[i] < GetParam().least_lead) continue;
      EXPECT_EQ(best[i], recording.tokens[recording.n_prompt + i])
          << recording.name << ", token " << i << " of the answer, which led by " << recording.leads[i];
      ++n_tokens;
    }
  }
  EXPECT_GT(n_tokens, 350u);  // of 394
}

TEST_P(TrainedQwen35, DraftsMostOfWhatItAnswers) {
  size_t n_right = 0, n_drafts = 0;
  for (const Recording& recording : read_recordings(GetParam().file)) {
    // The token at i + 2 is drafted in row i, once that at i + 1 is known.
    std::vector<int32_t> rows(recording.leads.size() - 1);
    std::iota(rows.begin(), rows.end(), static_cast<int32_t>(recording.n_prompt) - 1);
    std::vector<int32_t> best;
    const auto result = cli::evaluate_draft(*backend_, model_, recording.tokens, rows, {}, best_tokens_to(best));
    ASSERT_TRUE(result.has_value()) << result.error().message();
    for (size_t i = 0; i < best.size(); ++i) n_right += best[i] == recording.tokens[recording.n_prompt + i + 1];
    n_drafts += best.size();
  }
  RecordProperty("drafts", static_cast<int>(n_drafts));
  RecordProperty("right", static_cast<int>(n_right));
  EXPECT_GT(static_cast<double>(n_right), 0.85 * static_cast<double>(n_drafts));
}

INSTANTIATE_TEST_SUITE_P(Files, TrainedQwen35,
                         ::testing::Values(Case{.file = "Q8_0", .on_reference = true, .least_lead = 1e-2},
                                           Case{.file = "Q8_0", .on_reference = false, .least_lead = 0.2},
                                           Case{.file = "Q4_K_M", .on_reference = false, .least_lead = 0.2}),
                         [](const ::testing::TestParamInfo<Case>& c) {
                           return std::string(c.param.file) + (c.param.on_reference ? "_on_reference" : "_on_cpu");
                         });

}  // namespace
}  // namespace tempo9
