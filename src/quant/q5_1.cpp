// Q5_1: 5 bits, a scale and a constant (spec gguf 4.2, encoder in 6).
#include <algorithm>

#include "quant/encode.h"
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct Q5_1 {
  using Block = BlockQ5_1;
  static constexpr int64_t kElements = 32;
  static constexpr int64_t kGroup = 32;
  static constexpr Offset kOffset = Offset::kConstant;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    out.m = f16_to_f32(load_u16(block.m));
    const uint32_t high_bits = load_u32(block.qh);
    for (int j = 0; j < 16; ++j) {
      out.q[j] = static_cast<int8_t>((block.qs[j] & 15) | ((high_bits >> j) & 1) << 4);
      out.q[j + 16] = static_cast<int8_t>((block.qs[j] >> 4) | ((high_bits >> (j + 16)) & 1) << 4);
    }
  }

  static void encode(const float* values, Block& out) {
    const auto [low, high] = std::minmax_element(values, values + 32);
    const float d = (*high - *low) / 31.0f;
    store_f16(d, out.d);
    store_f16(*low, out.m);
    encode_codes(values, *low, reciprocal(d), 0.5f, 31, out.qs, out.qh);
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kQ5_1>() {
  return block_type<Q5_1>(tensor::DType::kQ5_1);
}

}  // namespace tempo9::quant
