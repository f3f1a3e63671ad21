// Decoders against the formulas of spec gguf section 4, element by element from raw bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "quant/blocks.h"
#include "quant/quant.h"
#include "quant/random_blocks.h"

namespace tempo9::quant {
namespace {

using tensor::DType;

// One block's bytes and how the spec addresses them.
struct Bytes {
  const std::byte* data;

  int u8(int64_t at) const { return std::to_integer<int>(data[at]); }
  int i8(int64_t at) const { return static_cast<int8_t>(u8(at)); }
  int u16(int64_t at) const { return u8(at) | u8(at + 1) << 8; }
  uint32_t u32(int64_t at) const { return static_cast<uint32_t>(u16(at)) | static_cast<uint32_t>(u16(at + 2)) << 16; }
  float d16(int64_t at) const { return f16_to_f32(static_cast<uint16_t>(u16(at))); }
};

int bit(uint32_t value, int64_t k) { return static_cast<int>((value >> k) & 1); }
int nib(Bytes b, int64_t qs, int64_t i) { return (b.u8(qs + i % 16) >> (4 * (i / 16))) & 15; }

const int kNl[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int kF4[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The scale table of Q4_K and Q5_K; `s` is the offset of S.
int k4_scale(Bytes b, int64_t s, int64_t j) {
  return j < 4 ? b.u8(s + j) & 63 : (b.u8(s + j + 4) & 15) | (b.u8(s + j - 4) >> 6) << 4;
}
int k4_min(Bytes b, int64_t s, int64_t j) {
  return j < 4 ? b.u8(s + j + 4) & 63 : (b.u8(s + j + 4) >> 4) | (b.u8(s + j) >> 6) << 4;
}

// Element i of a block by the spec's formula, in its order of evaluation.
float element(DType dtype, Bytes b, int64_t i) {
  const int64_t g16 = i / 16, g32 = i / 32, h = i / 128, l = i % 32;
  const int two_bit_shift = static_cast<int>(2 * ((i % 128) / 32));
  switch (dtype) {
    case DType::kF32:
      return std::bit_cast<float>(b.u32(0));
    case DType::kF16:
      return b.d16(0);
    case DType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(b.u16(0)) << 16);
    case DType::kQ4_0:
      return b.d16(0) * static_cast<float>(nib(b, 2, i) - 8);
    case DType::kQ4_1:
      return b.d16(0) * static_cast<float>(nib(b, 4, i)) + b.d16(2);
    case DType::kQ5_0:
      return b.d16(0) * static_cast<float>((nib(b, 6, i) | bit(b.u32(2), i) << 4) - 16);
    case DType::kQ5_1:
      return b.d16(0) * static_cast<float>(nib(b, 8, i) | bit(b.u32(4), i) << 4) + b.d16(2);
    case DType::kQ8_0:
      return b.d16(0) * static_cast<float>(b.i8(2 + i));
    case DType::kIQ4_NL:
      return b.d16(0) * static_cast<float>(kNl[nib(b, 2, i)]);
    case DType::kMXFP4:
      return std::ldexp(1.0f, b.u8(0) - 128) * static_cast<float>(kF4[nib(b, 1, i)]);
    case DType::kQ2_K: {
      const int q = (b.u8(16 + 32 * h + l) >> two_bit_shift) & 3;
      const float scale = b.d16(80) * static_cast<float>(b.u8(g16) & 15);
      return scale * static_cast<float>(q) - b.d16(82) * static_cast<float>(b.u8(g16) >> 4);
    }
    case DType::kQ3_K: {
      const int q2 = (b.u8(32 + 32 * h + l) >> two_bit_shift) & 3;
      const int q = q2 + 4 * bit(static_cast<uint32_t>(b.u8(l)), g32) - 4;
      const int lo4 = g16 < 8 ? b.u8(96 + g16) & 15 : b.u8(96 + g16 - 8) >> 4;
      const int hi2 = (b.u8(96 + 8 + g16 % 4) >> (2 * (g16 / 4))) & 3;
      return b.d16(108) * static_cast<float>((lo4 | hi2 << 4) - 32) * static_cast<float>(q);
    }
    case DType::kQ4_K: {
      const int q = (b.u8(16 + 32 * (i / 64) + l) >> (4 * (g32 % 2))) & 15;
      const float scale = b.d16(0) * static_cast<float>(k4_scale(b, 4, g32));
      return scale * static_cast<float>(q) - b.d16(2) * static_cast<float>(k4_min(b, 4, g32));
    }
    case DType::kQ5_K: {
      const int low = (b.u8(48 + 32 * (i / 64) + l) >> (4 * (g32 % 2))) & 15;
      const int q = low + 16 * bit(static_cast<uint32_t>(b.u8(16 + l)), g32);
      const float scale = b.d16(0) * static_cast<float>(k4_scale(b, 4, g32));
      return scale * static_cast<float>(q) - b.d16(2) * static_cast<float>(k4_min(b, 4, g32));
    }
    case DType::kQ6_K: {
      const int64_t t = (i % 128) / 32;
      const int low = (b.u8(64 * h + 32 * (t % 2) + l) >> (4 * (t / 2))) & 15;
      const int q = low | ((b.u8(128 + 32 * h + l) >> (2 * t)) & 3) << 4;
      return b.d16(208) * static_cast<float>(b.i8(192 + g16)) * static_cast<float>(q - 32);
    }
    case DType::kIQ4_XS: {
      const int ls = ((b.u8(4 + g32 / 2) >> (4 * (g32 % 2))) & 15) | ((b.u16(2) >> (2 * g32)) & 3) << 4;
      const int code = (b.u8(8 + 16 * g32 + i % 16) >> (4 * ((i % 32) / 16))) & 15;
      return b.d16(0) * static_cast<float>(ls - 32) * static_cast<float>(kNl[code]);
    }
    default:
      ADD_FAILURE() << "no formula for " << tensor::dtype_name(dtype);
      return 0.0f;
  }
}

class Decode : public testing::TestWithParam<QuantType> {};

TEST_P(Decode, EqualsTheFormulaOnRandomBlocks) {
  const QuantType& type = GetParam();
  const tensor::DTypeInfo& info = tensor::dtype_info(type.dtype);
  const int64_t n_blocks = 4096 / info.block_elements;
  const std::vector<std::byte> blocks = random_blocks(type.dtype, n_blocks, 1);
  std::vector<float> got(static_cast<size_t>(n_blocks * info.block_elements));
  type.decode(blocks.data(), got.data(), static_cast<int64_t>(got.size()));
  for (size_t i = 0; i < got.size(); ++i) {
    const int64_t n = static_cast<int64_t>(i);
    const Bytes block{blocks.data() + n / info.block_elements * info.block_bytes};
    ASSERT_EQ(got[i], element(type.dtype, block, n % info.block_elements)) << "element " << i;
  }
}

TEST_P(Decode, ReadsBlocksAtAnyAddress) {
  const QuantType& type = GetParam();
  const tensor::DTypeInfo& info = tensor::dtype_info(type.dtype);
  const std::vector<std::byte> blocks = random_blocks(type.dtype, 2, 2);
  std::vector<std::byte> shifted(blocks.size() + 1);
  std::copy(blocks.begin(), blocks.end(), shifted.begin() + 1);
  const size_t n = static_cast<size_t>(2 * info.block_elements);
  std::vector<float> expected(n), got(n);
  type.decode(blocks.data(), expected.data(), static_cast<int64_t>(n));
  type.decode(shifted.data() + 1, got.data(), static_cast<int64_t>(n));
  EXPECT_EQ(got, expected);
}

TEST_P(Decode, EqualsTheIntegerForm) {
  const QuantType& type = GetParam();
  const tensor::DTypeInfo& info = tensor::dtype_info(type.dtype);
  if (type.unpack == nullptr) {
    EXPECT_EQ(info.block_elements, 1);
    return;
  }
  const std::vector<std::byte> blocks = random_blocks(type.dtype, 20, 3);
  std::vector<float> decoded(static_cast<size_t>(info.block_elements));
  for (size_t at = 0; at < blocks.size(); at += static_cast<size_t>(info.block_bytes)) {
    IntBlock block;
    std::memset(static_cast<void*>(&block), 0x55, sizeof(block));  // nothing may be left as it was
    type.unpack(blocks.data() + at, block);
    ASSERT_TRUE(block.group == 16 || block.group == 32);
    EXPECT_TRUE(type.has_m || block.m == 0.0f);
    EXPECT_TRUE(type.has_min || block.dmin == 0.0f);
    type.decode(blocks.data() + at, decoded.data(), info.block_elements);
    for (int64_t i = 0; i < info.block_elements; ++i) {
      const int64_t group = i / block.group;
      EXPECT_TRUE(type.has_min || block.min[group] == 0);
      EXPECT_TRUE(info.block_elements == 256 || block.scale[group] == 1);
      const float scale = block.d * static_cast<float>(block.scale[group]);
      const float offset = type.has_m ? block.m : -(block.dmin * static_cast<float>(block.min[group]));
      ASSERT_EQ(scale * static_cast<float>(block.q[i]) + offset, decoded[static_cast<size_t>(i)]) << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Decode, testing::ValuesIn(all_types().begin(), all_types().end()),
                         [](const auto& test) { return std::string(tensor::dtype_name(test.param.dtype)); });

TEST(AllTypes, AreExactlyTheUsableOnes) {
  for (const tensor::DTypeInfo& info : tensor::all_dtypes()) {
    EXPECT_EQ(find_type(info.dtype) != nullptr, info.state == tensor::DTypeState::kUsable) << info.name;
  }
  for (const QuantType& type : all_types()) EXPECT_EQ(find_type(type.dtype), &type);
}

TEST(Mxfp4, ScalesAreExactPowersOfTwo) {
  for (int e = 0; e < 255; ++e) EXPECT_EQ(mxfp4_scale(static_cast<uint8_t>(e)), std::ldexp(1.0f, e - 128)) << e;
  EXPECT_EQ(mxfp4_scale(255), std::ldexp(1.0f, 127));
}

}  // namespace
}  // namespace tempo9::quant
