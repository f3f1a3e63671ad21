// The vector vocabulary of generic/ on AVX2, FMA and F16C: 16 floats as two registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace tempo9::kernels::T9_ISA {  // avx2, or a set that builds on it

#define T9_VEC static inline __attribute__((always_inline))

struct Vec {
  __m256 lo, hi;  // lanes 0..7 and 8..15
};
struct IntVec {
  __m256i lo, hi;
};

// kPrefix[8 - n] starts a mask of n lanes.
alignas(32) constexpr int32_t kPrefix[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
T9_VEC __m256i prefix(int64_t n) {
  const int64_t clamped = n < 0 ? 0 : n > 8 ? 8 : n;
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kPrefix + 8 - clamped));
}

T9_VEC Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
T9_VEC void store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
// The first n (0..16) lanes; the others read as 0 and are not written.
T9_VEC Vec load_n(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, prefix(n)), _mm256_maskload_ps(p + 8, prefix(n - 8))};
}
T9_VEC void store_n(float* p, Vec a, int64_t n) {
  _mm256_maskstore_ps(p, prefix(n), a.lo);
  _mm256_maskstore_ps(p + 8, prefix(n - 8), a.hi);
}
T9_VEC Vec splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
T9_VEC Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
T9_VEC Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
T9_VEC Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
T9_VEC Vec div(Vec a, Vec b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
// a * b + c, rounded once.
T9_VEC Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
// The second operand when either is not a number.
T9_VEC Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
T9_VEC Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
// x where a < b, else y.
T9_VEC Vec select_less(Vec a, Vec b, Vec x, Vec y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}

T9_VEC IntVec bits(Vec a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
T9_VEC Vec from_bits(IntVec a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
T9_VEC IntVec splat_int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
T9_VEC IntVec add(IntVec a, IntVec b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
T9_VEC IntVec sub(IntVec a, IntVec b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
T9_VEC IntVec bit_and(IntVec a, IntVec b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
T9_VEC IntVec bit_or(IntVec a, IntVec b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
template <int kBits>
T9_VEC IntVec shift_left(IntVec a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
// Arithmetic.
template <int kBits>
T9_VEC IntVec shift_right(IntVec a) {
  return {_mm256_srai_epi32(a.lo, kBits), _mm256_srai_epi32(a.hi, kBits)};
}

// IEEE halves; conversion to them rounds to nearest even.
T9_VEC Vec load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
T9_VEC Vec load_f16_n(const uint16_t* p, int64_t n) {
  alignas(32) uint16_t padded[16] = {};
  for (int64_t i = 0; i < n; ++i) padded[i] = p[i];
  return load_f16(padded);
}
T9_VEC void store_f16(uint16_t* p, Vec a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, kNearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, kNearest));
}

// 16 integers.
T9_VEC Vec load_int8(const int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(p))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(p + 8)))};
}

// The fixed tree of the numeric contract: lanes 8 apart, then 4, 2, 1.
T9_VEC float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
T9_VEC float max_of(Vec a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
T9_VEC float first(Vec a) { return _mm256_cvtss_f32(a.lo); }
T9_VEC Vec lane_indices() {
  return {_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)};
}
T9_VEC float sqrt_of(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// Register tiles of attention (generic/attention.inl), from 16 registers: 4 vectors x 16 lanes are 8 accumulators,
// enough to hide FMA latency 4 at two per cycle; 2 hold the loaded lanes and 1 the broadcast.
constexpr int kScoreVectors = 4;
constexpr int kScoreKeys = 1;
constexpr int kValueVectors = 4;
constexpr int kValueColumns = 1;

}  // namespace tempo9::kernels::T9_ISA
