#include "models/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tempo9::models {
namespace {

using Kind = RopeScaling::Kind;

RopeScaling read(std::map<std::string, gguf::Scalar> values) {
  gguf::Metadata metadata;
  for (auto& [key, value] : values) EXPECT_TRUE(metadata.insert("llama.rope." + key, std::move(value)).has_value());
  return read_rope_scaling(Keys(metadata, "llama"), 8192).value();
}

TEST(Rope, FrequenciesFallGeometrically) {
  const auto spec = make_rope({.base = 10000.0, .n_rot = 8, .head_dim = 16}).value();
  ASSERT_EQ(spec.frequencies.size(), 4u);
  EXPECT_EQ(spec.frequencies[0], 1.0f);
  EXPECT_EQ(spec.frequencies[1], 0.1f);
  EXPECT_EQ(spec.frequencies[3], 0.001f);
  EXPECT_EQ(spec.magnitude, 1.0f);
}

TEST(Rope, LinearScalingAndDivisorsDivide) {
  const std::vector<float> divisors = {1.0f, 4.0f};
  const auto spec =
      make_rope({.base = 10000.0, .n_rot = 4, .head_dim = 4, .scaling = {.factor = 8.0}, .divisors = divisors}).value();
  EXPECT_EQ(spec.frequencies[0], 0.125f);
  EXPECT_FLOAT_EQ(spec.frequencies[1], 0.01f / 32.0f);
}

TEST(Rope, ScalingKeysHaveTheDefaultsOfTheFormat) {
  EXPECT_EQ(read({}).factor, 1.0);
  EXPECT_EQ(read({{"scaling.factor", 8.0f}}).factor, 8.0);
  EXPECT_EQ(read({{"scaling.factor", 0.0f}}).factor, 1.0);
  EXPECT_EQ(read({{"scale_linear", 2.0f}}).factor, 2.0) << "the name in older files";
  EXPECT_EQ(read({{"scaling.type", std::string("none")}, {"scaling.factor", 8.0f}}).factor, 1.0);
}

// Ministral 3: the multiplier cancels the growth of the magnitude.
TEST(Rope, YarnMagnitude) {
  const auto with = [](float multiplier) {
    return read({{"scaling.type", std::string("yarn")},
                 {"scaling.factor", 16.0f},
                 {"scaling.original_context_length", uint32_t{16384}},
                 {"scaling.yarn_log_multiplier", multiplier}});
  };
  EXPECT_DOUBLE_EQ(with(1.0f).magnitude, 1.0);
  EXPECT_DOUBLE_EQ(with(0.0f).magnitude, 0.1 * std::log(16.0) + 1.0);
  EXPECT_EQ(with(0.0f).original_context, 16384.0);
}

TEST(Rope, YarnLeavesFastPairsAndDividesSlowOnes) {
  const RopeScaling scaling{.kind = Kind::kYarn, .factor = 4.0, .original_context = 4096.0};
  const auto plain = make_rope({.base = 1e6, .n_rot = 128, .head_dim = 128}).value().frequencies;
  const auto yarn = make_rope({.base = 1e6, .n_rot = 128, .head_dim = 128, .scaling = scaling}).value().frequencies;
  // Turns within the original context: pair 0 makes 652, pair 63 less than one. The ramp is worked out by hand:
  // low = floor(128 ln(4096 / 64 pi) / 2 ln 1e6) = 13, high = ceil(128 ln(4096 / 2 pi) / 2 ln 1e6) = 31.
  EXPECT_EQ(yarn[0], plain[0]);
  EXPECT_EQ(yarn[13], plain[13]);
  EXPECT_FLOAT_EQ(yarn[22], plain[22] * (0.5f + 0.5f / 4.0f));
  EXPECT_FLOAT_EQ(yarn[31], plain[31] / 4.0f);
  EXPECT_FLOAT_EQ(yarn[63], plain[63] / 4.0f);
}

// gpt-oss: low and high are 8.09 and 17.40 (spec models 10.3), not 8 and 18.
TEST(Rope, YarnMayBlendFromFractionsOfPairs) {
  RopeScaling scaling{.kind = Kind::kYarn, .factor = 32.0, .original_context = 4096.0, .whole_pairs = false};
  const auto plain = make_rope({.base = 150000.0, .n_rot = 64, .head_dim = 64}).value().frequencies;
  const auto yarn = make_rope({.base = 150000.0, .n_rot = 64, .head_dim = 64, .scaling = scaling}).value().frequencies;
  const double low = 64.0 * std::log(4096.0 / (64.0 * std::numbers::pi)) / (2.0 * std::log(150000.0));
  const double high = 64.0 * std::log(4096.0 / (2.0 * std::numbers::pi)) / (2.0 * std::log(150000.0));
  EXPECT_NEAR(low, 8.09, 0.01);
  EXPECT_NEAR(high, 17.40, 0.01);
  EXPECT_EQ(yarn[8], plain[8]);
  EXPECT_FLOAT_EQ(yarn[18], plain[18] / 32.0f);
  const double mix = 1.0 - (12.0 - low) / (high - low);
  EXPECT_FLOAT_EQ(yarn[12], static_cast<float>(static_cast<double>(plain[12]) * ((1.0 - mix) / 32.0 + mix)));
}

std::vector<uint8_t> axes(std::vector<int32_t> sections, int64_t n_rot, RopeSections order) {
  gguf::Metadata metadata;
  EXPECT_TRUE(metadata.insert("a.rope.dimension_sections", gguf::Array(std::move(sections))).has_value());
  return read_rope_axes(Keys(metadata, "a"), n_rot, order).value();
}

TEST(Rope, SectionsInRunsOrTakingTurns) {
  EXPECT_EQ(axes({2, 3, 1, 0}, 12, RopeSections::kContiguous), (std::vector<uint8_t>{0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(axes({3, 2, 2, 0}, 14, RopeSections::kInterleaved), (std::vector<uint8_t>{0, 1, 2, 0, 1, 2, 0}));
  // Qwen3-VL: pairs 60 to 63 are all time, as height and width have 20 pairs each.
  const std::vector<uint8_t> qwen3vl = axes({24, 20, 20, 0}, 128, RopeSections::kInterleaved);
  EXPECT_EQ(std::count(qwen3vl.begin(), qwen3vl.end(), 0), 24);
  EXPECT_EQ(std::count(qwen3vl.begin(), qwen3vl.end(), 1), 20);
  EXPECT_EQ(std::vector<uint8_t>(qwen3vl.begin() + 57, qwen3vl.end()), (std::vector<uint8_t>{0, 1, 2, 0, 0, 0, 0}));
}

TEST(Rope, RefusesUnknownScalingByName) {
  gguf::Metadata metadata;
  ASSERT_TRUE(metadata.insert("llama.rope.scaling.type", gguf::Scalar(std::string("longrope"))).has_value());
  const auto scaling = read_rope_scaling(Keys(metadata, "llama"), 8192);
  ASSERT_FALSE(scaling.has_value());
  EXPECT_EQ(scaling.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(scaling.error().message().find("longrope"), std::string::npos);
}

TEST(Rope, RefusesFrequenciesThatAreNotFinite) {
  EXPECT_FALSE(make_rope({.base = 1e-38, .n_rot = 4, .head_dim = 4, .scaling = {.factor = 1e-38}}).has_value());
}

}  // namespace
}  // namespace tempo9::models
