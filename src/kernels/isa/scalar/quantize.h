// Blocks of floats as int8 codes in plain C++: the definition (numeric contract C7).
#pragma once

#include <bit>
#include <cfloat>
#include <cstdint>

namespace tempo9::kernels::T9_ISA {  // scalar, or a set that builds on it
namespace {

// The largest magnitude, found among bit patterns, which puts NaN above infinity.
template <int Block>
inline float greatest_magnitude(const float* x) {
  uint32_t greatest = 0;
  for (int i = 0; i < Block; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu;
    greatest = bits > greatest ? bits : greatest;
  }
  return std::bit_cast<float>(greatest);
}

// Codes x * inverse to the nearest, and their sums over Group values each.
template <int Block, int Group>
inline void quantize_codes(const float* x, float inverse, int8_t* q, int16_t* sums) {
  for (int begin = 0; begin < Block; begin += Group) {
    int32_t sum = 0;
    for (int i = begin; i < begin + Group; ++i) {
      float scaled = x[i] * inverse;
      // Written so that NaN becomes -127: -128 must not occur (the sign trick of 8-bit products).
      scaled = scaled > -127.0f ? scaled : -127.0f;
      scaled = scaled < 127.0f ? scaled : 127.0f;
      q[i] = static_cast<int8_t>(__builtin_lrintf(scaled));
      sum += q[i];
    }
    sums[begin / Group] = static_cast<int16_t>(sum);
  }
}

// Block values to q = rne(x / d). A NaN in x makes d a NaN, and so every product with the block. Scales below the
// smallest normal float have no finite inverse: such blocks are zero.
template <int Block, int Group>
inline void quantize_block(const float* x, float* d_out, int8_t* q, int16_t* sums) {
  float d = greatest_magnitude<Block>(x) / 127.0f;
  float inverse = 1.0f / d;
  if (d < FLT_MIN) d = inverse = 0.0f;
  *d_out = d;
  quantize_codes<Block, Group>(x, inverse, q, sums);
}

}  // namespace
}  // namespace tempo9::kernels::T9_ISA
