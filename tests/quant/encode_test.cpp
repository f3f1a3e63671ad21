// Encoders: error bounds and the rows that break them (spec gguf section 6).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "quant/quant.h"
#include "quant/random_blocks.h"

namespace tempo9::quant {
namespace {

using tensor::DType;

constexpr size_t kRow = 512;  // a multiple of every block

std::vector<float> encode_decode(const QuantType& type, const std::vector<float>& values) {
  const int64_t n = static_cast<int64_t>(values.size());
  std::vector<std::byte> blocks(tensor::row_bytes(type.dtype, n));
  type.encode(values.data(), blocks.data(), n);
  std::vector<float> decoded(values.size());
  type.decode(blocks.data(), decoded.data(), n);
  return decoded;
}

std::vector<float> gaussian_row(uint32_t seed, float sigma = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  std::vector<float> row(kRow);
  for (float& value : row) value = normal(random);
  return row;
}

double relative_rms_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double error = 0.0, norm = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(error / norm);
}

// Upper bounds for Gaussian values: a uniform grid of step s errs by s / sqrt(12), and the largest of 32 (256) values
// lies near 2.1 (2.8) sigma; a fifth is left for scales that are themselves rounded.
double rms_bound(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0.0;
    case DType::kF16:
      return 0x1p-12;
    case DType::kBF16:
      return 0x1p-9;
    case DType::kQ8_0:
      return 0.006;
    case DType::kQ6_K:
      return 0.022;
    case DType::kQ5_0:
    case DType::kQ5_1:
      return 0.05;
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ4_K:
      return 0.1;
    case DType::kMXFP4:
      return 0.14;
    default:
      ADD_FAILURE() << "no bound for " << tensor::dtype_name(dtype);
      return 0.0;
  }
}

std::vector<QuantType> encodable_types() {
  std::vector<QuantType> types;
  for (const QuantType& type : all_types()) {
    if (type.encode != nullptr) types.push_back(type);
  }
  return types;
}

class Encode : public testing::TestWithParam<QuantType> {};

TEST_P(Encode, KeepsGaussianRowsWithinTheTypesError) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> row = gaussian_row(seed, std::ldexp(1.0f, static_cast<int>(seed) - 10));
    EXPECT_LE(relative_rms_error(encode_decode(GetParam(), row), row), rms_bound(GetParam().dtype)) << seed;
  }
}

TEST_P(Encode, GivesZerosForZeros) {
  for (float decoded : encode_decode(GetParam(), std::vector<float>(kRow, 0.0f))) EXPECT_EQ(decoded, 0.0f);
}

TEST_P(Encode, KeepsConstantAndAlternatingRows) {
  // E2M1 saturates: up to 8 becomes 6. The others place the extreme value on a code, and a grid with one more step on
  // one side misses the far side's extreme by up to a step.
  const double bound = GetParam().dtype == DType::kMXFP4 ? 0.25 : 0.1;
  for (float value : {1.0f, -1.0f, 0.37f, -250.0f}) {
    std::vector<float> constant(kRow, value);
    EXPECT_LE(relative_rms_error(encode_decode(GetParam(), constant), constant), bound) << value;
    std::vector<float> alternating = constant;
    for (size_t i = 1; i < kRow; i += 2) alternating[i] = -value;
    EXPECT_LE(relative_rms_error(encode_decode(GetParam(), alternating), alternating), bound) << value;
  }
}

TEST_P(Encode, KeepsASingleOutlier) {
  for (float outlier : {100.0f, -100.0f}) {
    std::vector<float> row = gaussian_row(5, 0.01f);
    row[77] = outlier;
    EXPECT_NEAR(encode_decode(GetParam(), row)[77], outlier, 4.0f);
  }
}

// Scales underflow to zero in f16 or in f32 itself; nothing may turn into infinity or NaN.
TEST_P(Encode, KeepsTinyRowsFinite) {
  for (float magnitude : {1e-6f, 1e-8f, 1e-15f, 1e-20f, 1e-38f, 1e-41f, std::numeric_limits<float>::denorm_min()}) {
    std::vector<float> row = gaussian_row(6);
    for (float& value : row) value *= magnitude;
    const std::vector<float> decoded = encode_decode(GetParam(), row);
    // The largest spread whose scale is lost: half of the smallest f16 step, times sub-scale and code of Q4_K.
    for (size_t i = 0; i < kRow; ++i) EXPECT_NEAR(decoded[i], row[i], 0x1p-25f * 63 * 15) << magnitude;
  }
}

INSTANTIATE_TEST_SUITE_P(AllEncoders, Encode, testing::ValuesIn(encodable_types()),
                         [](const auto& test) { return std::string(tensor::dtype_name(test.param.dtype)); });

TEST(EncodeQ8_0, ErrsByHalfAStepAndTheScalesRounding) {
  const QuantType& type = *find_type(DType::kQ8_0);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> row = gaussian_row(seed, std::ldexp(1.0f, 4 - static_cast<int>(seed)));
    const std::vector<float> decoded = encode_decode(type, row);
    for (size_t begin = 0; begin < kRow; begin += 32) {
      float amax = 0.0f;
      for (size_t i = begin; i < begin + 32; ++i) amax = std::max(amax, std::fabs(row[i]));
      const float d = amax / 127.0f;
      const float bound = d / 2 + 127 * std::fabs(d - f16_to_f32(f32_to_f16(d)));
      for (size_t i = begin; i < begin + 32; ++i) EXPECT_LE(std::fabs(decoded[i] - row[i]), bound * 1.0001f);
    }
  }
}

TEST(EncodeQ8_0, GivesBackItsOwnBlocks) {
  const QuantType& type = *find_type(DType::kQ8_0);
  std::vector<std::byte> blocks = random_blocks(DType::kQ8_0, kRow / 32, 9);
  for (size_t block = 0; block < blocks.size(); block += 34) {
    blocks[block + 2] = std::byte{127};  // the largest code is in use
    for (size_t i = 2; i < 34; ++i) {
      if (blocks[block + i] == std::byte{0x80}) blocks[block + i] = std::byte{0x81};
    }
  }
  std::vector<float> decoded(kRow);
  type.decode(blocks.data(), decoded.data(), kRow);
  EXPECT_EQ(encode_decode(type, decoded), decoded);
}

TEST(EncodeQ4_0, ErrsByHalfAStepButAtTheFarEnd) {
  const QuantType& type = *find_type(DType::kQ4_0);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> row = gaussian_row(seed);
    const std::vector<float> decoded = encode_decode(type, row);
    for (size_t begin = 0; begin < kRow; begin += 32) {
      float extreme = 0.0f;
      for (size_t i = begin; i < begin + 32; ++i) {
        if (std::fabs(row[i]) > std::fabs(extreme)) extreme = row[i];
      }
      const float d = extreme / -8.0f;
      const float rounding = 8 * std::fabs(d - f16_to_f32(f32_to_f16(d)));
      for (size_t i = begin; i < begin + 32; ++i) {
        const bool far_end = row[i] / d > 7.5f;
        const float bound = (far_end ? std::fabs(d) : std::fabs(d) / 2) + rounding;
        EXPECT_LE(std::fabs(decoded[i] - row[i]), bound * 1.0001f);
      }
    }
  }
}

TEST(EncodeMxfp4, SaturatesAtSixAndPicksTheNearestElse) {
  const QuantType& type = *find_type(DType::kMXFP4);
  std::vector<float> row(32, 0.0f);
  row[0] = 7.9f;  // scale 1: the grid is 0 0.5 1 1.5 2 3 4 6
  row[1] = -7.9f;
  row[2] = 2.4f;
  row[3] = -2.6f;
  row[4] = 0.24f;
  row[5] = 0.25f;  // a tie goes to the lower code
  const std::vector<float> decoded = encode_decode(type, row);
  EXPECT_EQ(decoded[0], 6.0f);
  EXPECT_EQ(decoded[1], -6.0f);
  EXPECT_EQ(decoded[2], 2.0f);
  EXPECT_EQ(decoded[3], -3.0f);
  EXPECT_EQ(decoded[4], 0.0f);
  EXPECT_EQ(decoded[5], 0.0f);
  std::byte block[17];
  type.encode(row.data(), block, 32);
  EXPECT_EQ(block[0], std::byte{127});
  for (int power = -120; power <= 120; ++power) {
    const std::vector<float> exact(32, std::ldexp(1.0f, power));
    EXPECT_EQ(encode_decode(type, exact), exact) << power;
  }
}

}  // namespace
}  // namespace tempo9::quant
