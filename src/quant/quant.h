// Block types: decode, encode, and the exact integer form that matrix products use. One file per type
// (quant/<type>.cpp) gives a QuantType; quant.cpp lists them. Formats: spec gguf section 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/dtype.h"

namespace tempo9::quant {

// A block as exact integers: w[i] = d * scale[i / group] * q[i] - dmin * min[i / group]  (32-value types have one group
// of 32 with scale 1; Q4_1 and Q5_1 use `m` instead: w[i] = d * q[i] + m). This is what the numeric contract (spec
// performance section 2, C1) is written in: products of q and activations are summed as integers.
struct IntBlock {
  int8_t q[256];      // block_elements used; in [-128, 127]
  int16_t scale[16];  // integer sub-scale of each group
  int16_t min[16];    // integer sub-min of each group (0 for types without)
  float d = 0.0f;
  float dmin = 0.0f;   // 0 for types without mins
  float m = 0.0f;      // additive constant of Q4_1 and Q5_1
  int32_t group = 32;  // elements a sub-scale covers: 16 or 32
};

struct QuantType {
  tensor::DType dtype;
  // Decodes `n` elements (a multiple of the block) to f32. Evaluation order as in spec gguf 4.3.
  void (*decode)(const std::byte* blocks, float* out, int64_t n);
  // Encodes `n` finite values (a multiple of the block); null where no encoder exists. Scales beyond the range of f16
  // are stored as infinity.
  void (*encode)(const float* values, std::byte* out, int64_t n);
  // One block as integers; null for F32, F16 and BF16.
  void (*unpack)(const std::byte* block, IntBlock& out);
  // True when the min term of the product is a float constant per block (Q4_1, Q5_1).
  bool has_m = false;
  // True when the product has an integer min term (Q2_K, Q4_K, Q5_K).
  bool has_min = false;
};

// Every usable type.
std::span<const QuantType> all_types();
// Null for types that are not usable as weights.
const QuantType* find_type(tensor::DType dtype);

// Refuses a weight's type that tempo9 has no code for: names the tensor, the type and the way out.
// `id` is the type id as stored in the file.
Result<void> check_weight_type(std::string_view tensor_name, uint32_t id);

// IEEE half and bfloat16, exact (subnormals included); rounding to nearest even.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
inline float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

}  // namespace tempo9::quant

#include <bit>
namespace tempo9::quant {
inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
}  // namespace tempo9::quant
