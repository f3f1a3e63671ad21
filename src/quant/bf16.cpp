// BF16: the upper half of an f32 (spec gguf 4.1).
#include <bit>
#include <cmath>
#include <cstring>

#include "quant/types.h"

namespace tempo9::quant {
namespace {

void decode(const std::byte* blocks, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, blocks + 2 * i, sizeof(bits));
    out[i] = bf16_to_f32(bits);
  }
}

void encode(const float* values, std::byte* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = f32_to_bf16(values[i]);
    std::memcpy(out + 2 * i, &bits, sizeof(bits));
  }
}

}  // namespace

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

template <>
QuantType describe<tensor::DType::kBF16>() {
  return {.dtype = tensor::DType::kBF16, .decode = decode, .encode = encode, .unpack = nullptr};
}

}  // namespace tempo9::quant
