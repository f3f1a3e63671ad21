// The vector vocabulary of matrix products for NEON with dot products (Armv8.2 FEAT_DotProd): what
// kernels/generic/matmul_*.inl is written in. A vector holds 4 weight rows side by side; each row's 32-bit lane holds 4
// codes, 2 words or 1 integer.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#define T9_INLINE __attribute__((always_inline)) inline

namespace tempo9::kernels::neon {
namespace {

using Ints = int32x4_t;
using Floats = float32x4_t;
constexpr int kLanes = 4;

// sdot multiplies signed by signed bytes: nothing is added to 8-bit codes.
constexpr int kSignedBias = 0;

// Activation rows that a panel tile multiplies at once: 8 rows x 2 vectors of sums and 4 more of codes and activations
// fit the 32 registers.
constexpr int n_tile_rows(int /*block*/) { return 8; }
// Up to this many activation rows, codes are multiplied as they are unpacked; beyond it they go through a panel.
constexpr int kMaxStreamRows = 4;
// The same for weights in tiles, and how many bytes ahead these are fetched.
constexpr int kMaxTileStreamRows = 4;
constexpr size_t kTileAhead = 4096;
constexpr int kMaxTwoStreamRows = 0;
constexpr bool reads_in_two_streams() { return false; }
// Weight rows x activation rows that a tile of float weights multiplies at once; each takes four accumulators.
constexpr int kFloatTileWeights = 2;
constexpr int kFloatTileRows = 2;

T9_INLINE uint8x16_t as_bytes(Ints a) { return vreinterpretq_u8_s32(a); }
T9_INLINE Ints from_bytes(uint8x16_t a) { return vreinterpretq_s32_u8(a); }
T9_INLINE uint32x4_t as_unsigned(Ints a) { return vreinterpretq_u32_s32(a); }
T9_INLINE Ints from_unsigned(uint32x4_t a) { return vreinterpretq_s32_u32(a); }

T9_INLINE Ints zero_ints() { return vdupq_n_s32(0); }
T9_INLINE Ints set_int32(int32_t value) { return vdupq_n_s32(value); }
T9_INLINE Ints set_int8(int value) { return from_bytes(vdupq_n_u8(static_cast<uint8_t>(value))); }
T9_INLINE Ints and_bits(Ints a, Ints b) { return vandq_s32(a, b); }
T9_INLINE Ints or_bits(Ints a, Ints b) { return vorrq_s32(a, b); }
T9_INLINE Ints add_int32(Ints a, Ints b) { return vaddq_s32(a, b); }
T9_INLINE Ints sub_int32(Ints a, Ints b) { return vsubq_s32(a, b); }
T9_INLINE Ints sub_int8(Ints a, Ints b) { return from_bytes(vsubq_u8(as_bytes(a), as_bytes(b))); }
T9_INLINE Ints mul_int32(Ints a, Ints b) { return vmulq_s32(a, b); }
T9_INLINE Ints max_uint32(Ints a, Ints b) { return from_unsigned(vmaxq_u32(as_unsigned(a), as_unsigned(b))); }
// Shifts of 32-bit lanes: bits that cross bytes are for the caller to mask off.
template <int N>
T9_INLINE Ints shift_right(Ints a) {
  if constexpr (N == 0) {
    return a;
  } else {
    return from_unsigned(vshrq_n_u32(as_unsigned(a), N));
  }
}
template <int N>
T9_INLINE Ints shift_left(Ints a) {
  return vshlq_n_s32(a, N);
}
// Stores each lane's integer, which is in int8's range, as a byte.
T9_INLINE void store_as_int8(int8_t* p, Ints a) {
  const int16x4_t words = vmovn_s32(a);
  const int32x2_t bytes = vreinterpret_s32_s8(vmovn_s16(vcombine_s16(words, words)));
  const int32_t four = vget_lane_s32(bytes, 0);
  __builtin_memcpy(p, &four, sizeof four);
}
// The sum of all lanes.
T9_INLINE int32_t sum_int32(Ints a) { return vaddvq_s32(a); }
T9_INLINE uint32_t greatest_uint32(Ints a) { return vmaxvq_u32(as_unsigned(a)); }

T9_INLINE Floats zero_floats() { return vdupq_n_f32(0.0f); }
T9_INLINE Floats set_floats(float value) { return vdupq_n_f32(value); }
T9_INLINE Floats load_floats(const float* p) { return vld1q_f32(p); }
T9_INLINE void store_floats(float* p, Floats a) { vst1q_f32(p, a); }
T9_INLINE Floats mul(Floats a, Floats b) { return vmulq_f32(a, b); }
T9_INLINE Floats mul_add(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }      // a * b + c
T9_INLINE Floats neg_mul_add(Floats a, Floats b, Floats c) { return vfmsq_f32(c, a, b); }  // -(a * b) + c
T9_INLINE Floats min(Floats a, Floats b) { return vminnmq_f32(a, b); }                     // b for NaN in a
T9_INLINE Floats max(Floats a, Floats b) { return vmaxnmq_f32(a, b); }                     // b for NaN in a
T9_INLINE Floats to_floats(Ints a) { return vcvtq_f32_s32(a); }
T9_INLINE Ints to_nearest_ints(Floats a) { return vcvtnq_s32_f32(a); }
T9_INLINE Floats bits_to_floats(Ints bits) { return vreinterpretq_f32_s32(bits); }
T9_INLINE Ints floats_to_bits(Floats a) { return vreinterpretq_s32_f32(a); }

T9_INLINE Floats halves_to_floats(uint16x4_t a) { return vcvt_f32_f16(vreinterpret_f16_u16(a)); }
// The half-precision number in the low 16 bits of each lane.
T9_INLINE Floats low_half_to_floats(Ints a) { return halves_to_floats(vmovn_u32(as_unsigned(a))); }

T9_INLINE Ints load_ints(const uint8_t* p) { return from_bytes(vld1q_u8(p)); }
T9_INLINE void store_ints(uint8_t* p, Ints a) { vst1q_u8(p, as_bytes(a)); }
// Lane r: byte r, or half-precision number r, of those at p.
T9_INLINE Ints load_uint8(const uint8_t* p) {
  const int32_t lanes[4] = {p[0], p[1], p[2], p[3]};
  return vld1q_s32(lanes);
}
T9_INLINE Floats load_halves(const uint8_t* p) { return halves_to_floats(vreinterpret_u16_u8(vld1_u8(p))); }

// Lane r: the 4 bytes at p + r * stride.
T9_INLINE Ints gather_int32(const uint8_t* p, size_t stride) {
  int32_t lanes[4];
  for (size_t r = 0; r < 4; ++r) __builtin_memcpy(&lanes[r], p + r * stride, 4);
  return vld1q_s32(lanes);
}

// Lane r: the byte at p + r * stride.
T9_INLINE Ints gather_uint8(const uint8_t* p, size_t stride) {
  const int32_t lanes[4] = {p[0], p[stride], p[2 * stride], p[3 * stride]};
  return vld1q_s32(lanes);
}

// Lane r: the half-precision number at p + r * stride.
T9_INLINE Floats gather_half(const uint8_t* p, size_t stride) {
  uint16_t lanes[4];
  for (size_t r = 0; r < 4; ++r) __builtin_memcpy(&lanes[r], p + r * stride, 2);
  return halves_to_floats(vld1_u16(lanes));
}

// out[k] lane r: the bytes 4k..4k+3 of the 16 at p + r * stride.
T9_INLINE void gather_16_bytes(const uint8_t* p, size_t stride, Ints (&out)[4]) {
  const int32x4_t a = load_ints(p), b = load_ints(p + stride);
  const int32x4_t c = load_ints(p + 2 * stride), d = load_ints(p + 3 * stride);
  const int64x2_t ab_low = vreinterpretq_s64_s32(vzip1q_s32(a, b)), ab_high = vreinterpretq_s64_s32(vzip2q_s32(a, b));
  const int64x2_t cd_low = vreinterpretq_s64_s32(vzip1q_s32(c, d)), cd_high = vreinterpretq_s64_s32(vzip2q_s32(c, d));
  out[0] = vreinterpretq_s32_s64(vzip1q_s64(ab_low, cd_low));
  out[1] = vreinterpretq_s32_s64(vzip2q_s64(ab_low, cd_low));
  out[2] = vreinterpretq_s32_s64(vzip1q_s64(ab_high, cd_high));
  out[3] = vreinterpretq_s32_s64(vzip2q_s64(ab_high, cd_high));
}

// Byte i of each lane becomes the lane's byte B_i, or zero where B_i is negative.
template <int B0, int B1, int B2, int B3>
T9_INLINE Ints pick_bytes(Ints a) {
  uint8_t pattern[16];
  constexpr int kBytes[4] = {B0, B1, B2, B3};
  for (int i = 0; i < 16; ++i) {
    pattern[i] = static_cast<uint8_t>(kBytes[i % 4] < 0 ? 255 : i / 4 * 4 + kBytes[i % 4]);
  }
  return from_bytes(vqtbl1q_u8(as_bytes(a), vld1q_u8(pattern)));
}

// For each byte of a, which is below 16: that entry of a 16-byte table.
T9_INLINE Ints look_up(const int8_t* table, Ints a) {
  return vreinterpretq_s32_s8(vqtbl1q_s8(vld1q_s8(table), as_bytes(a)));
}

// `flag` in each byte of which a and `bits` share a bit, else 0.
T9_INLINE Ints flag_where(Ints a, Ints bits, int flag) {
  return and_bits(from_bytes(vtstq_u8(as_bytes(a), as_bytes(bits))), set_int8(flag));
}

// `below` in the lanes where a < limit, else `otherwise`.
T9_INLINE Ints select_below(Ints a, int32_t limit, Ints below, Ints otherwise) {
  return vbslq_s32(vcltq_s32(a, vdupq_n_s32(limit)), below, otherwise);
}

// Signed 8-bit codes as this ISA multiplies them.
T9_INLINE Ints signed_codes(Ints a) { return a; }

// Scales as multiply_scaled takes them: here, the integer in each lane.
template <int Byte>
T9_INLINE Ints scale_unsigned(Ints a) {
  return and_bits(shift_right<8 * Byte>(a), set_int32(255));
}
template <int Byte>
T9_INLINE Ints scale_signed(Ints a) {
  return vshrq_n_s32(vshlq_n_s32(a, 24 - 8 * Byte), 24);
}
T9_INLINE Ints scale_int32(Ints a) { return a; }

// Bytes 2 * Half and 2 * Half + 1 of each lane as two words.
template <int Half>
T9_INLINE Ints words_unsigned(Ints a) {
  return or_bits(scale_unsigned<2 * Half>(a), shift_left<16>(scale_unsigned<2 * Half + 1>(a)));
}
template <int Half>
T9_INLINE Ints words_signed(Ints a) {
  return or_bits(and_bits(scale_signed<2 * Half>(a), set_int32(0xffff)), shift_left<16>(scale_signed<2 * Half + 1>(a)));
}

// acc + words(a) . words(*pair), pair being two int16 that all rows meet.
T9_INLINE Ints multiply_words(Ints acc, Ints a, const int16_t* pair) {
  const int32x4_t low = vshrq_n_s32(vshlq_n_s32(a, 16), 16);
  return vmlaq_n_s32(vmlaq_n_s32(acc, low, pair[0]), vshrq_n_s32(a, 16), pair[1]);
}

// out[i] = sums[2i] + sums[2i + 1], for 16 sums.
T9_INLINE void add_word_pairs(const int16_t* sums, int16_t* out) {
  vst1q_s16(out, vpaddq_s16(vld1q_s16(sums), vld1q_s16(sums + 8)));
}

// total[m][v] += dot of codes[v][0..Steps) with the 4 * Steps activations at y[m]: 16 activations are loaded, and each
// dot takes its 4 of them from their lane.
template <int MaxCode, int Steps, int M, int V>
T9_INLINE void multiply(const Ints* const (&codes)[V], const int8_t* const (&y)[M], Ints (&total)[M][V]) {
  static_assert(Steps % 4 == 0);
#pragma GCC unroll 2
  for (int begin = 0; begin < Steps; begin += 4) {
    int8x16_t w[V][4];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) w[v][k] = vreinterpretq_s8_s32(codes[v][begin + k]);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const int8x16_t sixteen = vld1q_s8(y[m] + 4 * begin);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        total[m][v] = vdotq_laneq_s32(total[m][v], w[v][0], sixteen, 0);
        total[m][v] = vdotq_laneq_s32(total[m][v], w[v][1], sixteen, 1);
        total[m][v] = vdotq_laneq_s32(total[m][v], w[v][2], sixteen, 2);
        total[m][v] = vdotq_laneq_s32(total[m][v], w[v][3], sixteen, 3);
      }
    }
  }
}

// total[m][v] += scale[v] * dot.
template <int MaxCode, int Steps, int M, int V>
T9_INLINE void multiply_scaled(const Ints* const (&codes)[V], const int8_t* const (&y)[M], const Ints (&scale)[V],
                               Ints (&total)[M][V]) {
  Ints dot[M][V];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) dot[m][v] = zero_ints();
  }
  multiply<MaxCode, Steps, M, V>(codes, y, dot);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) total[m][v] = vmlaq_s32(total[m][v], dot[m][v], scale[v]);
  }
}

// 16 floats: the virtual lanes of contract C1 for float weights.
struct Float16s {
  float32x4_t part[4];
};
T9_INLINE Float16s zero_16() { return {{zero_floats(), zero_floats(), zero_floats(), zero_floats()}}; }
T9_INLINE Float16s load_16(const float* p) {
  return {{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}
T9_INLINE Float16s load_16_f16(const uint16_t* p) {
  const auto four = [](const uint16_t* q) __attribute__((always_inline)) { return halves_to_floats(vld1_u16(q)); };
  return {{four(p), four(p + 4), four(p + 8), four(p + 12)}};
}
T9_INLINE Float16s load_16_bf16(const uint16_t* p) {
  const auto four = [](const uint16_t* q) __attribute__((always_inline)) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(q), 16));
  };
  return {{four(p), four(p + 4), four(p + 8), four(p + 12)}};
}
T9_INLINE Float16s mul_add_16(const Float16s& a, const Float16s& b, const Float16s& c) {
  Float16s sum;
  for (int i = 0; i < 4; ++i) sum.part[i] = vfmaq_f32(c.part[i], a.part[i], b.part[i]);
  return sum;
}
// Adds 8 + 8, 4 + 4, 2 + 2, 1 + 1.
T9_INLINE float tree_sum_16(const Float16s& a) {
  const float32x4_t four = vaddq_f32(vaddq_f32(a.part[0], a.part[2]), vaddq_f32(a.part[1], a.part[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

}  // namespace
}  // namespace tempo9::kernels::neon
