// The vector vocabulary of matrix products for AVX2: what kernels/generic/matmul_*.inl is written in. A vector holds 8
// weight rows side by side; each row's 32-bit lane holds 4 codes, 2 words or 1 integer. Where AVX-VNNI is there (the
// compiler's __AVXVNNI__), its dots take the place of products in 16 bits.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define T9_INLINE __attribute__((always_inline)) inline

namespace tempo9::kernels::T9_ISA {  // avx2, or a set that builds on it
namespace {

using Ints = __m256i;
using Floats = __m256;
constexpr int kLanes = 8;

#ifdef __AVXVNNI__
// vpdpbusd multiplies unsigned by signed bytes: 8-bit signed codes are stored with 128 added.
constexpr int kSignedBias = 128;
#else
// 8-bit codes stay signed: their sign is moved to the activations (see multiply).
constexpr int kSignedBias = 0;
#endif

// Activation rows that a panel tile multiplies at once: 4 rows x 2 vectors of sums, 2 of codes, 1 of activations and 1
// product are 12 of the 16 registers.
constexpr int n_tile_rows(int /*block*/) { return 4; }
// Up to this many activation rows, codes are multiplied as they are unpacked; beyond it they go through a panel.
constexpr int kMaxStreamRows = 4;
// The same for weights in tiles, and how many bytes ahead these are fetched.
constexpr int kMaxTileStreamRows = 4;
constexpr size_t kTileAhead = 8192;
constexpr int kMaxTwoStreamRows = 0;
constexpr bool reads_in_two_streams() { return false; }
// Weight rows x activation rows that a tile of float weights multiplies at once; each takes two accumulators.
constexpr int kFloatTileWeights = 2;
constexpr int kFloatTileRows = 2;

T9_INLINE Ints zero_ints() { return _mm256_setzero_si256(); }
T9_INLINE Ints set_int32(int32_t value) { return _mm256_set1_epi32(value); }
T9_INLINE Ints set_int8(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
T9_INLINE Ints and_bits(Ints a, Ints b) { return _mm256_and_si256(a, b); }
T9_INLINE Ints or_bits(Ints a, Ints b) { return _mm256_or_si256(a, b); }
T9_INLINE Ints add_int32(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
T9_INLINE Ints sub_int32(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
T9_INLINE Ints sub_int8(Ints a, Ints b) { return _mm256_sub_epi8(a, b); }
T9_INLINE Ints mul_int32(Ints a, Ints b) { return _mm256_mullo_epi32(a, b); }
T9_INLINE Ints max_uint32(Ints a, Ints b) { return _mm256_max_epu32(a, b); }
// Shifts of 32-bit lanes: bits that cross bytes are for the caller to mask off.
template <int N>
T9_INLINE Ints shift_right(Ints a) {
  return _mm256_srli_epi32(a, N);
}
template <int N>
T9_INLINE Ints shift_left(Ints a) {
  return _mm256_slli_epi32(a, N);
}
// Stores each lane's integer, which is in int8's range, as a byte.
T9_INLINE void store_as_int8(int8_t* p, Ints a) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  _mm_storeu_si64(p, _mm_packs_epi16(words, words));
}
// The sum of all lanes.
T9_INLINE int32_t sum_int32(Ints a) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}
T9_INLINE uint32_t greatest_uint32(Ints a) {
  __m128i s = _mm_max_epu32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  s = _mm_max_epu32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_max_epu32(s, _mm_shuffle_epi32(s, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(s));
}

T9_INLINE Floats zero_floats() { return _mm256_setzero_ps(); }
T9_INLINE Floats set_floats(float value) { return _mm256_set1_ps(value); }
T9_INLINE Floats load_floats(const float* p) { return _mm256_loadu_ps(p); }
T9_INLINE void store_floats(float* p, Floats a) { _mm256_storeu_ps(p, a); }
T9_INLINE Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
T9_INLINE Floats mul_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }       // a * b + c
T9_INLINE Floats neg_mul_add(Floats a, Floats b, Floats c) { return _mm256_fnmadd_ps(a, b, c); }  // -(a * b) + c
T9_INLINE Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }                          // b for NaN in a
T9_INLINE Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }                          // b for NaN in a
T9_INLINE Floats to_floats(Ints a) { return _mm256_cvtepi32_ps(a); }
T9_INLINE Ints to_nearest_ints(Floats a) { return _mm256_cvtps_epi32(a); }
T9_INLINE Floats bits_to_floats(Ints bits) { return _mm256_castsi256_ps(bits); }
T9_INLINE Ints floats_to_bits(Floats a) { return _mm256_castps_si256(a); }

// The half-precision number in the low 16 bits of each lane.
T9_INLINE Floats low_half_to_floats(Ints a) {
  const Ints low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
  return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}

T9_INLINE int32_t load_int32(const uint8_t* p) {
  int32_t value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}
T9_INLINE int load_int16(const uint8_t* p) {
  int16_t value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}

T9_INLINE Ints load_ints(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
T9_INLINE void store_ints(uint8_t* p, Ints a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a); }
// Lane r: byte r, or half-precision number r, of those at p.
T9_INLINE Ints load_uint8(const uint8_t* p) { return _mm256_cvtepu8_epi32(_mm_loadu_si64(p)); }
T9_INLINE Floats load_halves(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Lane r: the 4 bytes at p + r * stride.
T9_INLINE Ints gather_int32(const uint8_t* p, size_t stride) {
  const auto four = [stride](const uint8_t* q) __attribute__((always_inline)) {
    __m128i v = _mm_cvtsi32_si128(load_int32(q));
    v = _mm_insert_epi32(v, load_int32(q + stride), 1);
    v = _mm_insert_epi32(v, load_int32(q + 2 * stride), 2);
    return _mm_insert_epi32(v, load_int32(q + 3 * stride), 3);
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(four(p)), four(p + 4 * stride), 1);
}

// Lane r: the byte at p + r * stride.
T9_INLINE Ints gather_uint8(const uint8_t* p, size_t stride) {
  __m128i v = _mm_cvtsi32_si128(p[0]);
  v = _mm_insert_epi8(v, p[1 * stride], 1);
  v = _mm_insert_epi8(v, p[2 * stride], 2);
  v = _mm_insert_epi8(v, p[3 * stride], 3);
  v = _mm_insert_epi8(v, p[4 * stride], 4);
  v = _mm_insert_epi8(v, p[5 * stride], 5);
  v = _mm_insert_epi8(v, p[6 * stride], 6);
  v = _mm_insert_epi8(v, p[7 * stride], 7);
  return _mm256_cvtepu8_epi32(v);
}

// Lane r: the half-precision number at p + r * stride.
T9_INLINE Floats gather_half(const uint8_t* p, size_t stride) {
  __m128i v = _mm_cvtsi32_si128(load_int16(p));
  v = _mm_insert_epi16(v, load_int16(p + 1 * stride), 1);
  v = _mm_insert_epi16(v, load_int16(p + 2 * stride), 2);
  v = _mm_insert_epi16(v, load_int16(p + 3 * stride), 3);
  v = _mm_insert_epi16(v, load_int16(p + 4 * stride), 4);
  v = _mm_insert_epi16(v, load_int16(p + 5 * stride), 5);
  v = _mm_insert_epi16(v, load_int16(p + 6 * stride), 6);
  v = _mm_insert_epi16(v, load_int16(p + 7 * stride), 7);
  return _mm256_cvtph_ps(v);
}

// out[k] lane r: the bytes 4k..4k+3 of the 16 at p + r * stride.
T9_INLINE void gather_16_bytes(const uint8_t* p, size_t stride, Ints (&out)[4]) {
  Ints v[4];  // rows i and i + 4 in its two 16-byte parts
  for (int i = 0; i < 4; ++i) {
    const auto row = [ q = p + static_cast<size_t>(i) * stride, stride ](size_t r) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(q + r * stride));
    };
    v[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(row(0)), row(4), 1);
  }
  const Ints low01 = _mm256_unpacklo_epi32(v[0], v[1]);
  const Ints low23 = _mm256_unpacklo_epi32(v[2], v[3]);
  const Ints high01 = _mm256_unpackhi_epi32(v[0], v[1]);
  const Ints high23 = _mm256_unpackhi_epi32(v[2], v[3]);
  out[0] = _mm256_unpacklo_epi64(low01, low23);
  out[1] = _mm256_unpackhi_epi64(low01, low23);
  out[2] = _mm256_unpacklo_epi64(high01, high23);
  out[3] = _mm256_unpackhi_epi64(high01, high23);
}

// Byte i of each lane becomes the lane's byte B_i, or zero where B_i is negative.
template <int B0, int B1, int B2, int B3>
T9_INLINE Ints pick_bytes(Ints a) {
  constexpr auto dword = [](int lane) {
    const auto byte = [lane](int b) { return static_cast<uint32_t>(b < 0 ? 0x80 : 4 * lane + b); };
    return static_cast<int32_t>(byte(B0) | byte(B1) << 8 | byte(B2) << 16 | byte(B3) << 24);
  };
  const __m128i pattern = _mm_setr_epi32(dword(0), dword(1), dword(2), dword(3));
  return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(pattern));
}

// For each byte of a, which is below 16: that entry of a 16-byte table.
T9_INLINE Ints look_up(const int8_t* table, Ints a) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), a);
}

// `flag` in each byte of which a has the one bit that is set in that byte of `bits`, else 0.
T9_INLINE Ints flag_where(Ints a, Ints bits, int flag) {
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(a, bits), bits), set_int8(flag));
}

// `below` in the lanes where a < limit, else `otherwise`.
T9_INLINE Ints select_below(Ints a, int32_t limit, Ints below, Ints otherwise) {
  return _mm256_blendv_epi8(otherwise, below, _mm256_cmpgt_epi32(set_int32(limit), a));
}

// Signed 8-bit codes as this ISA multiplies them.
#ifdef __AVXVNNI__
T9_INLINE Ints signed_codes(Ints a) { return _mm256_xor_si256(a, set_int8(0x80)); }

// Scales as multiply_scaled takes them: here, the integer in each lane.
template <int Byte>
T9_INLINE Ints scale_unsigned(Ints a) {
  return pick_bytes<Byte, -1, -1, -1>(a);
}
template <int Byte>
T9_INLINE Ints scale_signed(Ints a) {
  return _mm256_srai_epi32(pick_bytes<-1, -1, -1, Byte>(a), 24);
}
T9_INLINE Ints scale_int32(Ints a) { return a; }
#else
T9_INLINE Ints signed_codes(Ints a) { return a; }

// Scales as multiply_scaled takes them: here, each lane's integer in both of its words.
template <int Byte>
T9_INLINE Ints scale_unsigned(Ints a) {
  return pick_bytes<Byte, -1, Byte, -1>(a);
}
template <int Byte>
T9_INLINE Ints scale_signed(Ints a) {
  return _mm256_srai_epi16(pick_bytes<-1, Byte, -1, Byte>(a), 8);
}
T9_INLINE Ints scale_int32(Ints a) { return or_bits(and_bits(a, set_int32(0xffff)), shift_left<16>(a)); }
#endif

// Bytes 2 * Half and 2 * Half + 1 of each lane as two words.
template <int Half>
T9_INLINE Ints words_unsigned(Ints a) {
  return pick_bytes<2 * Half, -1, 2 * Half + 1, -1>(a);
}
template <int Half>
T9_INLINE Ints words_signed(Ints a) {
  return _mm256_srai_epi16(pick_bytes<-1, 2 * Half, -1, 2 * Half + 1>(a), 8);
}

// acc + words(a) . words(*pair), pair being two int16 that all rows meet.
T9_INLINE Ints multiply_words(Ints acc, Ints a, const int16_t* pair) {
  int32_t both;
  __builtin_memcpy(&both, pair, sizeof both);
  return _mm256_add_epi32(acc, _mm256_madd_epi16(a, _mm256_set1_epi32(both)));
}

// out[i] = sums[2i] + sums[2i + 1], for 16 sums.
T9_INLINE void add_word_pairs(const int16_t* sums, int16_t* out) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
  const __m256i totals = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(totals), _mm256_extracti128_si256(totals, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), words);
}

T9_INLINE Ints broadcast_4_bytes(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return _mm256_set1_epi32(four);
}

#ifdef __AVXVNNI__
// acc + dot of each lane's bytes (unsigned codes, signed y). Written out for the reason that the AVX-512 set gives.
T9_INLINE Ints dot_bytes(Ints acc, Ints codes, Ints y) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(codes), "x"(y));
  return acc;
}

// total[m][v] += dot of codes[v][0..Steps) with the 4 * Steps activations at y[m].
template <int MaxCode, int Steps, int M, int V>
T9_INLINE void multiply(const Ints* const (&codes)[V], const int8_t* const (&y)[M], Ints (&total)[M][V]) {
#pragma GCC unroll 8
  for (int k = 0; k < Steps; ++k) {
    Ints w[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) w[v] = codes[v][k];
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      const Ints four = broadcast_4_bytes(y[m] + 4 * k);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) total[m][v] = dot_bytes(total[m][v], w[v], four);
    }
  }
}

// total[m][v] += scale[v] * dot.
template <int MaxCode, int Steps, int M, int V>
T9_INLINE void multiply_scaled(const Ints* const (&codes)[V], const int8_t* const (&y)[M], const Ints (&scale)[V],
                               Ints (&total)[M][V]) {
  Ints dot[M][V];
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) dot[m][v] = zero_ints();
  }
  multiply<MaxCode, Steps, M, V>(codes, y, dot);
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) total[m][v] = add_int32(total[m][v], mul_int32(dot[m][v], scale[v]));
  }
}
#else
// Adding goes on from here in the order that is written. g++ 12 would add the products of many steps as a tree, and
// spill all of them until then: half the speed.
T9_INLINE void keep_order(Ints& sum) { asm("" : "+x"(sum)); }

// total[m][v] += scale[v] * dot of codes[v][0..Steps) with the 4 * Steps activations at y[m].
//
// vpmaddubsw adds two products of an unsigned and a signed byte in 16 bits, saturating. Unsigned codes up to MaxCode
// and activations up to 127 let floor(32767 / (2 * 127 * MaxCode)) of them be added in 16 bits: 8 for 4-bit codes, 4
// for 5 bits, 2 for 6. Then vpmaddwd multiplies by the scale and widens in one step. 8-bit codes are signed: |code|
// meets the activation with the code's sign; 2 * 128 * 127 = 32512 fits, because activations are never -128.
template <int MaxCode, int Steps, int M, int V>
T9_INLINE void multiply_scaled(const Ints* const (&codes)[V], const int8_t* const (&y)[M], const Ints (&scale)[V],
                               Ints (&total)[M][V]) {
  constexpr bool kSigned = MaxCode > 127;
  constexpr int kFit = kSigned ? 1 : 32767 / (2 * 127 * MaxCode);
  constexpr int kRun = kFit < Steps ? kFit : Steps;
#pragma GCC unroll 8
  for (int begin = 0; begin < Steps; begin += kRun) {
    Ints sum[M][V];
#pragma GCC unroll 8
    for (int k = begin; k < (begin + kRun < Steps ? begin + kRun : Steps); ++k) {
      Ints w[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) w[v] = codes[v][k];
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) {
        const Ints four = broadcast_4_bytes(y[m] + 4 * k);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
          const Ints products = kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[v]), _mm256_sign_epi8(four, w[v]))
                                        : _mm256_maddubs_epi16(w[v], four);
          sum[m][v] = k == begin ? products : _mm256_add_epi16(sum[m][v], products);
          keep_order(sum[m][v]);
        }
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        total[m][v] = _mm256_add_epi32(total[m][v], _mm256_madd_epi16(sum[m][v], scale[v]));
        keep_order(total[m][v]);
      }
    }
  }
}

// total[m][v] += dot.
template <int MaxCode, int Steps, int M, int V>
T9_INLINE void multiply(const Ints* const (&codes)[V], const int8_t* const (&y)[M], Ints (&total)[M][V]) {
  Ints ones[V];
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) ones[v] = _mm256_set1_epi16(1);
  multiply_scaled<MaxCode, Steps, M, V>(codes, y, ones, total);
}
#endif

// 16 floats: the virtual lanes of contract C1 for float weights.
struct Float16s {
  __m256 low;
  __m256 high;
};
T9_INLINE Float16s zero_16() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
T9_INLINE Float16s load_16(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
T9_INLINE Float16s load_16_f16(const uint16_t* p) {
  const auto half = [](const uint16_t* q) __attribute__((always_inline)) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)));
  };
  return {half(p), half(p + 8)};
}
T9_INLINE Float16s load_16_bf16(const uint16_t* p) {
  const auto half = [](const uint16_t* q) __attribute__((always_inline)) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  };
  return {half(p), half(p + 8)};
}
T9_INLINE Float16s mul_add_16(const Float16s& a, const Float16s& b, const Float16s& c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
// Adds 8 + 8, 4 + 4, 2 + 2, 1 + 1.
T9_INLINE float tree_sum_16(const Float16s& a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

}  // namespace
}  // namespace tempo9::kernels::T9_ISA
