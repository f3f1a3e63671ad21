// Models whose images are seen whole: an image's rows see each other in both directions (spec models 13.4), its rows
// are in one pass, and text sees what it always did.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "cli/evaluate.h"
#include "goldens.h"
#include "support/data.h"

namespace tempo9 {
namespace {

constexpr int32_t kPlaceholder = 500;
constexpr int64_t kBegin = 21, kRows = 30;  // over the end of a page
constexpr int64_t kTokens = 70;

class WholeImage : public ::testing::TestWithParam<const char*> {
 protected:
  WholeImage() : model_(load_golden({.name = GetParam(), .folder = testing::golden_path(GetParam())}).value()) {
    std::mt19937 random(3);
    for (int64_t i = 0; i < kTokens; ++i) tokens_.push_back(static_cast<int32_t>(random() % 480));
    for (int64_t i = 0; i < kRows; ++i) tokens_[static_cast<size_t>(kBegin + i)] = kPlaceholder;
    std::normal_distribution<float> value;
    rows_.resize(static_cast<size_t>(kRows * cols()));
    for (float& x : rows_) x = value(random);
  }

  int64_t cols() const { return models::embedding_cols(model_.program); }

  // Logits of the rows in `wanted`, or of all.
  Result<std::vector<float>> logits(backends::Backend& backend, const std::vector<float>& image, int64_t chunk,
                                    std::vector<int32_t> wanted = {}) const {
    if (wanted.empty()) {
      wanted.resize(kTokens);
      std::iota(wanted.begin(), wanted.end(), 0);
    }
    std::vector<float> logits;
    const cli::EvaluateOptions options{.chunk = chunk,
                                       .kv_type = tensor::KvType::kF32,  // of f16 gemma4 may choose other experts
                                       .images = cli::ImageRows{.token = kPlaceholder,
                                                                .height = 5,
                                                                .width = kRows / 5,
                                                                .embeddings = {image.data(), kRows, cols(), cols()}}};
    T9_TRY_VOID(
        cli::evaluate(backend, model_, tokens_, wanted, options, [&](tensor::MatView<const float> out) -> Result<void> {
          logits.insert(logits.end(), out.data, out.data + out.rows * out.cols);
          return {};
        }));
    return logits;
  }

  std::vector<float> row(const std::vector<float>& logits, int64_t i) const {
    return {logits.begin() + i * model_.info.n_vocab, logits.begin() + (i + 1) * model_.info.n_vocab};
  }

  models::Model model_;
  std::vector<int32_t> tokens_;
  std::vector<float> rows_;
};

TEST_P(WholeImage, ItsRowsSeeEachOtherBothWays) {
  const auto backend = backends::make_reference_backend();
  const auto before = logits(*backend, rows_, 512).value();
  std::vector<float> changed = rows_;
  changed[static_cast<size_t>((kRows - 1) * cols())] += 1.0f;  // of the last row
  const auto after = logits(*backend, changed, 512).value();
  for (int64_t i = 0; i < kTokens; ++i) {
    const bool sees_it = model_.info.sees_whole_images ? i >= kBegin : i >= kBegin + kRows - 1;
    EXPECT_EQ(row(before, i) != row(after, i), sees_it) << "row " << i;
  }
}

TEST_P(WholeImage, HowItsTextIsCutChangesNoBit) {
  for (const bool is_reference : {false, true}) {
    const auto backend = is_reference ? backends::make_reference_backend()
                                      : backends::make_cpu_backend({.n_threads = 2, .isa = {}}).value();
    const auto whole = logits(*backend, rows_, 512).value();
    for (const int64_t chunk : {kRows, int64_t{33}, int64_t{47}}) {
      EXPECT_EQ(logits(*backend, rows_, chunk).value(), whole) << backend->name() << " in passes of " << chunk;
    }
    const std::vector<int32_t> few = {5, 21, 50, 69};
    const auto some = logits(*backend, rows_, 40, few).value();
    for (size_t i = 0; i < few.size(); ++i) EXPECT_EQ(row(some, static_cast<int64_t>(i)), row(whole, few[i]));
  }
}

TEST_P(WholeImage, BackendsAgree) {
  const auto reference = backends::make_reference_backend();
  const auto cpu = backends::make_cpu_backend({.n_threads = 2, .isa = {}}).value();
  const auto expected = logits(*reference, rows_, 512).value();
  const auto got = logits(*cpu, rows_, 512).value();
  EXPECT_LT(cli::compare_logits(got, expected, model_.info.n_vocab).relative_rms, 0.05);
}

TEST_P(WholeImage, APassThatIsTooShortIsAnError) {
  const auto backend = backends::make_reference_backend();
  const auto result = logits(*backend, rows_, kRows - 1);
  EXPECT_EQ(result.has_value(), !model_.info.sees_whole_images);
  if (!result) {
    EXPECT_EQ(result.error().message(), "the image of 30 rows at token 21 does not fit a pass of 29 rows");
  }
}

// Recorded by tests/goldens/gemma3/make_whole_image.py, from the formulas.
TEST(WholeImageGolden, LogitsAreThoseOfTheFormulas) {
  const Golden golden{.name = "gemma3", .folder = testing::golden_path("gemma3")};
  const models::Model model = load_golden(golden).value();
  const auto json = nlohmann::json::parse(std::ifstream(golden.folder / "whole_image_expect.json"));
  const std::vector<int32_t> tokens = json.at("tokens"), rows = json.at("rows");
  const int64_t n_rows = json.at("image_tokens"), cols = json.at("embedding_width");
  const std::vector<float> image =
      read_logits(golden, "whole_image_embeddings.f32", static_cast<size_t>(n_rows * cols));
  const std::vector<float> expected =
      read_logits(golden, "whole_image_logits.f32", rows.size() * static_cast<size_t>(model.info.n_vocab));
  const cli::EvaluateOptions options{.images = cli::ImageRows{.token = json.at("image_token_id"),
                                                              .height = json.at("grid_h"),
                                                              .width = json.at("grid_w"),
                                                              .embeddings = {image.data(), n_rows, cols, cols}}};
  for (const bool is_reference : {true, false}) {
    const auto backend = is_reference ? backends::make_reference_backend()
                                      : backends::make_cpu_backend({.n_threads = 2, .isa = {}}).value();
    std::vector<float> got;
    ASSERT_TRUE(
        cli::evaluate(*backend, model, tokens, rows, options, [&](tensor::MatView<const float> out) -> Result<void> {
          got.insert(got.end(), out.data, out.data + out.rows * out.cols);
          return {};
        }).has_value());
    const double error = cli::compare_logits(got, expected, model.info.n_vocab).relative_rms;
    EXPECT_LT(error, is_reference ? 1e-5 : 1e-3) << backend->name();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WholeImage, ::testing::Values("gemma3", "gemma4", "gemma4-moe", "gemma4-e", "llama"));

TEST(WholeImageModels, AreThoseOfTheSpec) {
  for (const Golden& golden : all_goldens()) {
    const models::Model model = load_golden(golden).value();
    const bool expected = golden.name == "gemma3" || golden.name == "gemma4" || golden.name == "gemma4-moe";
    EXPECT_EQ(model.info.sees_whole_images, expected) << golden.name;
    EXPECT_EQ(models::most_image_rows(model), expected ? 32 : INT64_MAX) << golden.name;
  }
}

}  // namespace
}  // namespace tempo9
