// The vector vocabulary of generic/, in plain C++: 16 floats (or their bits) at a time. The compiler may use whatever
// the base architecture has; every operation is defined lane by lane, so the bits are those of the other sets.
#pragma once

#include <bit>
#include <cstdint>

#include "quant/quant.h"

namespace tempo9::kernels::T9_ISA {  // scalar, or a set that builds on it

#define T9_VEC static inline __attribute__((always_inline))

struct Vec {
  float lane[16];
};
struct IntVec {
  uint32_t lane[16];
};

#define T9_LANES(expression)                             \
  do {                                                   \
    for (int i = 0; i < 16; ++i) r.lane[i] = expression; \
    return r;                                            \
  } while (false)

T9_VEC Vec load(const float* p) {
  Vec r;
  T9_LANES(p[i]);
}
T9_VEC void store(float* p, Vec a) {
  for (int i = 0; i < 16; ++i) p[i] = a.lane[i];
}
// The first n (0..16) lanes; the others read as 0 and are not written.
T9_VEC Vec load_n(const float* p, int64_t n) {
  Vec r;
  T9_LANES(i < n ? p[i] : 0.0f);
}
T9_VEC void store_n(float* p, Vec a, int64_t n) {
  for (int i = 0; i < n; ++i) p[i] = a.lane[i];
}
T9_VEC Vec splat(float x) {
  Vec r;
  T9_LANES(x);
}
T9_VEC Vec add(Vec a, Vec b) {
  Vec r;
  T9_LANES(a.lane[i] + b.lane[i]);
}
T9_VEC Vec sub(Vec a, Vec b) {
  Vec r;
  T9_LANES(a.lane[i] - b.lane[i]);
}
T9_VEC Vec mul(Vec a, Vec b) {
  Vec r;
  T9_LANES(a.lane[i] * b.lane[i]);
}
T9_VEC Vec div(Vec a, Vec b) {
  Vec r;
  T9_LANES(a.lane[i] / b.lane[i]);
}
// a * b + c, rounded once.
T9_VEC Vec fma(Vec a, Vec b, Vec c) {
  Vec r;
  T9_LANES(__builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]));
}
// The second operand when either is not a number.
T9_VEC Vec min(Vec a, Vec b) {
  Vec r;
  T9_LANES(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}
T9_VEC Vec max(Vec a, Vec b) {
  Vec r;
  T9_LANES(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}
// x where a < b, else y.
T9_VEC Vec select_less(Vec a, Vec b, Vec x, Vec y) {
  Vec r;
  T9_LANES(a.lane[i] < b.lane[i] ? x.lane[i] : y.lane[i]);
}

T9_VEC IntVec bits(Vec a) {
  IntVec r;
  T9_LANES(std::bit_cast<uint32_t>(a.lane[i]));
}
T9_VEC Vec from_bits(IntVec a) {
  Vec r;
  T9_LANES(std::bit_cast<float>(a.lane[i]));
}
T9_VEC IntVec splat_int(int32_t x) {
  IntVec r;
  T9_LANES(static_cast<uint32_t>(x));
}
T9_VEC IntVec add(IntVec a, IntVec b) {
  IntVec r;
  T9_LANES(a.lane[i] + b.lane[i]);
}
T9_VEC IntVec sub(IntVec a, IntVec b) {
  IntVec r;
  T9_LANES(a.lane[i] - b.lane[i]);
}
T9_VEC IntVec bit_and(IntVec a, IntVec b) {
  IntVec r;
  T9_LANES(a.lane[i] & b.lane[i]);
}
T9_VEC IntVec bit_or(IntVec a, IntVec b) {
  IntVec r;
  T9_LANES(a.lane[i] | b.lane[i]);
}
template <int kBits>
T9_VEC IntVec shift_left(IntVec a) {
  IntVec r;
  T9_LANES(a.lane[i] << kBits);
}
// Arithmetic.
template <int kBits>
T9_VEC IntVec shift_right(IntVec a) {
  IntVec r;
  T9_LANES(static_cast<uint32_t>(static_cast<int32_t>(a.lane[i]) >> kBits));
}

// IEEE halves; conversion to them rounds to nearest even.
T9_VEC Vec load_f16(const uint16_t* p) {
  Vec r;
  T9_LANES(quant::f16_to_f32(p[i]));
}
T9_VEC Vec load_f16_n(const uint16_t* p, int64_t n) {
  Vec r;
  T9_LANES(i < n ? quant::f16_to_f32(p[i]) : 0.0f);
}
T9_VEC void store_f16(uint16_t* p, Vec a) {
  for (int i = 0; i < 16; ++i) p[i] = quant::f32_to_f16(a.lane[i]);
}

// 16 integers.
T9_VEC Vec load_int8(const int8_t* p) {
  Vec r;
  T9_LANES(static_cast<float>(p[i]));
}

// The fixed tree of the numeric contract: lanes 8 apart, then 4, 2, 1.
T9_VEC float sum(Vec a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.lane[i] = a.lane[i] + a.lane[i + width];
  }
  return a.lane[0];
}
T9_VEC float max_of(Vec a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.lane[i] = a.lane[i] > a.lane[i + width] ? a.lane[i] : a.lane[i + width];
  }
  return a.lane[0];
}
T9_VEC float first(Vec a) { return a.lane[0]; }
T9_VEC Vec lane_indices() {
  Vec r;
  T9_LANES(static_cast<float>(i));
}
T9_VEC float sqrt_of(float x) { return __builtin_sqrtf(x); }

#undef T9_LANES

// Register tiles of attention: see generic/attention.inl. Nothing to gain here.
constexpr int kScoreVectors = 1;
constexpr int kScoreKeys = 1;
constexpr int kValueVectors = 1;
constexpr int kValueColumns = 1;

}  // namespace tempo9::kernels::T9_ISA
