// Blocks of random bytes whose f16 scales are finite, as files hold them.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "quant/quant.h"

namespace tempo9::quant {

// Byte offsets of the f16 fields of a block, and the E8M0 byte of MXFP4.
inline std::vector<size_t> f16_offsets(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::kF16:
      return {0};
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
      return {0};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108};
    case DType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

inline std::vector<std::byte> random_blocks(tensor::DType dtype, int64_t n_blocks, uint32_t seed) {
  std::mt19937 random(seed);
  const size_t block_bytes = static_cast<size_t>(tensor::dtype_info(dtype).block_bytes);
  std::vector<std::byte> bytes(block_bytes * static_cast<size_t>(n_blocks));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t block = 0; block < bytes.size(); block += block_bytes) {
    // Scales of all magnitudes, subnormal ones and zero included.
    for (size_t offset : f16_offsets(dtype)) {
      const float scale =
          std::ldexp(static_cast<float>(random() % 4096) / 2048.0f - 1.0f, -static_cast<int>(random() % 24));
      const uint16_t bits = f32_to_f16(scale);
      std::memcpy(bytes.data() + block + offset, &bits, 2);
    }
    // Finite as floats: no exponent of all ones.
    if (dtype == tensor::DType::kF32) bytes[block + 3] &= std::byte{0xBF};
    if (dtype == tensor::DType::kBF16) bytes[block + 1] &= std::byte{0xBF};
  }
  return bytes;
}

}  // namespace tempo9::quant
