// F16: IEEE binary16 (spec gguf 4.1).
#include <bit>
#include <cstring>

#include "quant/types.h"

namespace tempo9::quant {
namespace {

constexpr uint32_t kF32Infinity = 0x7F800000;
// Distance of the two exponent biases, 127 - 15, in the exponent field of an f32.
constexpr uint32_t kExponentShift = 112u << 23;

float to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half & 0x7C00;
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7FFF) << 13;
  const uint32_t normal = magnitude + kExponentShift;
  const uint32_t infinite_or_nan = magnitude | kF32Infinity;
  const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(half & 0x03FF) * 0x1p-24f);
  const uint32_t bits = exponent == 0 ? subnormal : exponent == 0x7C00 ? infinite_or_nan : normal;
  return std::bit_cast<float>(sign | bits);
}

uint16_t from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  uint32_t half = 0;
  if (magnitude > kF32Infinity) {
    half = 0x7E00 | ((magnitude >> 13) & 0x03FF);
  } else if (magnitude >= 0x477FF000) {  // 65520, half-way from the largest f16 to the next step
    half = 0x7C00;
  } else if (magnitude < 0x38800000) {  // 2^-14: subnormal. Adding 1/2 rounds to multiples of 2^-24.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  } else {
    half = (magnitude - kExponentShift + 0x0FFF + ((magnitude >> 13) & 1)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

void decode(const std::byte* blocks, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, blocks + 2 * i, sizeof(half));
    out[i] = to_f32(half);
  }
}

void encode(const float* values, std::byte* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half = from_f32(values[i]);
    std::memcpy(out + 2 * i, &half, sizeof(half));
  }
}

}  // namespace

float f16_to_f32(uint16_t bits) { return to_f32(bits); }
uint16_t f32_to_f16(float value) { return from_f32(value); }

template <>
QuantType describe<tensor::DType::kF16>() {
  return {.dtype = tensor::DType::kF16, .decode = decode, .encode = encode, .unpack = nullptr};
}

}  // namespace tempo9::quant
