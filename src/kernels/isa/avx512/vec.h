// The vector vocabulary of generic/ on AVX-512: 16 floats as one register.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace tempo9::kernels::T9_ISA {  // avx512, or a set that builds on it

#define T9_VEC static inline __attribute__((always_inline))

struct Vec {
  __m512 v;
};
struct IntVec {
  __m512i v;
};

T9_VEC __mmask16 prefix(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }

T9_VEC Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
T9_VEC void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
// The first n (0..16) lanes; the others read as 0 and are not written.
T9_VEC Vec load_n(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(prefix(n), p)}; }
T9_VEC void store_n(float* p, Vec a, int64_t n) { _mm512_mask_storeu_ps(p, prefix(n), a.v); }
T9_VEC Vec splat(float x) { return {_mm512_set1_ps(x)}; }
T9_VEC Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
T9_VEC Vec sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
T9_VEC Vec mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
T9_VEC Vec div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
// a * b + c, rounded once.
T9_VEC Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// The second operand when either is not a number.
T9_VEC Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
T9_VEC Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
// x where a < b, else y.
T9_VEC Vec select_less(Vec a, Vec b, Vec x, Vec y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}

T9_VEC IntVec bits(Vec a) { return {_mm512_castps_si512(a.v)}; }
T9_VEC Vec from_bits(IntVec a) { return {_mm512_castsi512_ps(a.v)}; }
T9_VEC IntVec splat_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
T9_VEC IntVec add(IntVec a, IntVec b) { return {_mm512_add_epi32(a.v, b.v)}; }
T9_VEC IntVec sub(IntVec a, IntVec b) { return {_mm512_sub_epi32(a.v, b.v)}; }
T9_VEC IntVec bit_and(IntVec a, IntVec b) { return {_mm512_and_si512(a.v, b.v)}; }
T9_VEC IntVec bit_or(IntVec a, IntVec b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int kBits>
T9_VEC IntVec shift_left(IntVec a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
// Arithmetic.
template <int kBits>
T9_VEC IntVec shift_right(IntVec a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}

// IEEE halves; conversion to them rounds to nearest even.
T9_VEC Vec load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
T9_VEC Vec load_f16_n(const uint16_t* p, int64_t n) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(prefix(n), p))};
}
T9_VEC void store_f16(uint16_t* p, Vec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

// 16 integers.
T9_VEC Vec load_int8(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}

// The fixed tree of the numeric contract: lanes 8 apart, then 4, 2, 1. (The compiler's own reduction has another
// order.)
T9_VEC float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
T9_VEC float max_of(Vec a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
T9_VEC float first(Vec a) { return _mm512_cvtss_f32(a.v); }
T9_VEC Vec lane_indices() { return {_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
T9_VEC float sqrt_of(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// Register tiles of attention (generic/attention.inl), from 32 registers: 16 accumulators hide FMA latency 4 at two per
// cycle twice over; 2 or 4 hold the loaded lanes and 1 the broadcast.
constexpr int kScoreVectors = 8;
constexpr int kScoreKeys = 2;
constexpr int kValueVectors = 4;
constexpr int kValueColumns = 4;

}  // namespace tempo9::kernels::T9_ISA
