// Inside quant/: arithmetic that the encoders share. Rounding is named as in spec gguf section 6.
#pragma once

#include <cmath>
#include <cstdint>

#include "quant/quant.h"

namespace tempo9::quant {

// 1 / scale, or 0 where that is no finite number: blocks of zeros, and values so small that the stored f16 scale is 0
// anyway.
inline float reciprocal(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Half to even, within [low, high]; `low` for a NaN, which scales that overflow f16 lead to.
inline int round_even(float value, int low, int high) {
  const float rounded = std::rint(value);
  if (!(rounded > static_cast<float>(low))) return low;
  return rounded < static_cast<float>(high) ? static_cast<int>(rounded) : high;
}

// The element of largest magnitude with its sign; the first one on ties.
inline float signed_extreme(const float* values, int64_t n) {
  float extreme = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
  }
  return extreme;
}

inline void store_u16(uint16_t value, uint8_t* out) {
  out[0] = static_cast<uint8_t>(value);
  out[1] = static_cast<uint8_t>(value >> 8);
}

// Rounds to f16, stores it, and gives the stored value back.
inline float store_f16(float value, uint8_t* out) {
  const uint16_t bits = f32_to_f16(value);
  store_u16(bits, out);
  return f16_to_f32(bits);
}

// Codes of 4 or 5 bits for 32 values on an even grid: code = trunc(x * inverse + bias) up to `max_code`, where `bias`
// holds the zero point and the half that makes it round. Fifth bits go to `qh` as a little-endian u32; it may be null
// when max_code is 15.
inline void encode_codes(const float* values, float origin, float inverse, float bias, int max_code, uint8_t* qs,
                         uint8_t* qh) {
  uint32_t high_bits = 0;
  for (int i = 0; i < 32; ++i) {
    const float position = (values[i] - origin) * inverse + bias;
    const int code = position < static_cast<float>(max_code) ? static_cast<int>(position) : max_code;
    uint8_t& byte = qs[i % 16];
    byte = static_cast<uint8_t>(i < 16 ? code & 15 : byte | (code & 15) << 4);
    high_bits |= static_cast<uint32_t>(code >> 4) << i;
  }
  for (int k = 0; qh != nullptr && k < 4; ++k) qh[k] = static_cast<uint8_t>(high_bits >> (8 * k));
}

}  // namespace tempo9::quant
