// The packed blocks of the quantised types, as they lie in a GGUF file. Plain data for decoders and kernels: this
// header is also compiled with the flags of one instruction set, so everything in it has internal linkage.
//
// Source: spec gguf section 4. Numbers are little-endian. Every field is bytes, so that a block has no alignment of its
// own: blocks of 17 or 210 bytes start anywhere. Element i of a block is written w[i]; l = i mod 32, h = i / 128.
#pragma once

#include <cstdint>

namespace tempo9::quant {

// ---- Blocks of 32. In the 4-bit fields byte j holds element j in its low nibble and element j + 16 in its high one.

// w = d * (nibble - 8)
struct BlockQ4_0 {
  uint8_t d[2];  // f16
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// w = d * nibble + m
struct BlockQ4_1 {
  uint8_t d[2];  // f16
  uint8_t m[2];  // f16
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// w = d * ((nibble | bit i of qh << 4) - 16)
struct BlockQ5_0 {
  uint8_t d[2];   // f16
  uint8_t qh[4];  // u32
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

// w = d * (nibble | bit i of qh << 4) + m
struct BlockQ5_1 {
  uint8_t d[2];   // f16
  uint8_t m[2];   // f16
  uint8_t qh[4];  // u32
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

// w = d * qs[i]. Other writers store -128 too.
struct BlockQ8_0 {
  uint8_t d[2];  // f16
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// w = d * kIq4NlValues[nibble]
struct BlockIQ4_NL {
  uint8_t d[2];  // f16
  uint8_t qs[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

// w = mxfp4_scale(e) * kMxfp4Values[nibble]
struct BlockMXFP4 {
  uint8_t e;  // E8M0
  uint8_t qs[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

// ---- Blocks of 256. g16 = i / 16 and g32 = i / 32 number the groups that share a sub-scale.

// q = (qs[32h + l] >> 2 * ((i mod 128) / 32)) & 3;  w = d * (scales[g16] & 15) * q - dmin * (scales[g16] >> 4)
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint8_t d[2];     // f16
  uint8_t dmin[2];  // f16
};
static_assert(sizeof(BlockQ2_K) == 84);

// q = two bits of qs as in Q2_K, plus 4 if bit g32 of hmask[l] is set, minus 4;  w = d * (scale[g16] - 32) * q
struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];  // 6 bits each: see unpack_q3_k_scales
  uint8_t d[2];        // f16
};
static_assert(sizeof(BlockQ3_K) == 110);

// q = (qs[32 * (i / 64) + l] >> 4 * (g32 mod 2)) & 15;  w = d * scale[g32] * q - dmin * min[g32]
struct BlockQ4_K {
  uint8_t d[2];        // f16
  uint8_t dmin[2];     // f16
  uint8_t scales[12];  // 6 bits each: see unpack_k4_scales
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

// As Q4_K, with bit g32 of qh[l] as the fifth bit of q.
struct BlockQ5_K {
  uint8_t d[2];        // f16
  uint8_t dmin[2];     // f16
  uint8_t scales[12];  // 6 bits each: see unpack_k4_scales
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

// With t = (i mod 128) / 32:
// q = (ql[64h + 32 * (t mod 2) + l] >> 4 * (t / 2)) & 15 | ((qh[32h + l] >> 2t) & 3) << 4;  w = d * sc[g16] * (q - 32)
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t sc[16];
  uint8_t d[2];  // f16
};
static_assert(sizeof(BlockQ6_K) == 210);

// scale = ((scales_l[g32 / 2] >> 4 * (g32 mod 2)) & 15) | ((scales_h >> 2 * g32) & 3) << 4
// w = d * (scale - 32) * kIq4NlValues[(qs[16 * g32 + i mod 16] >> 4 * ((i mod 32) / 16)) & 15]
struct BlockIQ4_XS {
  uint8_t d[2];         // f16
  uint8_t scales_h[2];  // u16
  uint8_t scales_l[4];
  uint8_t qs[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

// Values of the 4-bit codes of IQ4_NL and IQ4_XS.
constexpr int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Twice the E2M1 values of the 4-bit codes of MXFP4, which makes them integers; mxfp4_scale is half the E8M0 scale.
// Code 8 is -0 in E2M1.
constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static inline uint16_t load_u16(const uint8_t* bytes) { return static_cast<uint16_t>(bytes[0] | bytes[1] << 8); }

static inline uint32_t load_u32(const uint8_t* bytes) {
  return static_cast<uint32_t>(load_u16(bytes)) | static_cast<uint32_t>(load_u16(bytes + 2)) << 16;
}

// 2^(e - 128), exact: subnormal for e < 2. 255, a NaN in the standard, gives 2^127.
static inline float mxfp4_scale(uint8_t e) {
  const uint32_t bits = e >= 2 ? static_cast<uint32_t>(e - 1) << 23 : 0x00200000u << e;
  return __builtin_bit_cast(float, bits);
}

// The eight scales and mins, 0..63, of a Q4_K or Q5_K block. Bytes 0-3 hold scales 0-3 and bytes 4-7 mins 0-3 in their
// low 6 bits; bytes 8-11 hold the low nibbles of scales 4-7 and, in the high nibble, of mins 4-7, whose upper two bits
// are bits 6-7 of bytes 0-3 and 4-7.
static inline void unpack_k4_scales(const uint8_t packed[12], uint8_t scales[8], uint8_t mins[8]) {
  for (int j = 0; j < 4; ++j) {
    scales[j] = packed[j] & 63;
    mins[j] = packed[j + 4] & 63;
    scales[j + 4] = static_cast<uint8_t>((packed[j + 8] & 15) | (packed[j] >> 6) << 4);
    mins[j + 4] = static_cast<uint8_t>((packed[j + 8] >> 4) | (packed[j + 4] >> 6) << 4);
  }
}

// The sixteen scales, -32..31, of a Q3_K block. Low nibbles of bytes 0-7: scales 0-7; high nibbles: scales 8-15; bytes
// 8-11 hold the upper two bits, byte 8 + g mod 4 those of scale g at bit 2 * (g / 4).
static inline void unpack_q3_k_scales(const uint8_t packed[12], int8_t scales[16]) {
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? packed[g] & 15 : packed[g - 8] >> 4;
    const int high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
    scales[g] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

}  // namespace tempo9::quant
