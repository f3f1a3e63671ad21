// Q5_0: 5 bits around 16, one scale (spec gguf 4.2, encoder in 6).
#include "quant/encode.h"
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct Q5_0 {
  using Block = BlockQ5_0;
  static constexpr int64_t kElements = 32;
  static constexpr int64_t kGroup = 32;
  static constexpr Offset kOffset = Offset::kNone;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    const uint32_t high_bits = load_u32(block.qh);
    for (int j = 0; j < 16; ++j) {
      out.q[j] = static_cast<int8_t>(((block.qs[j] & 15) | ((high_bits >> j) & 1) << 4) - 16);
      out.q[j + 16] = static_cast<int8_t>(((block.qs[j] >> 4) | ((high_bits >> (j + 16)) & 1) << 4) - 16);
    }
  }

  static void encode(const float* values, Block& out) {
    const float d = signed_extreme(values, 32) / -16.0f;
    store_f16(d, out.d);
    encode_codes(values, 0.0f, reciprocal(d), 16.5f, 31, out.qs, out.qh);
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kQ5_0>() {
  return block_type<Q5_0>(tensor::DType::kQ5_0);
}

}  // namespace tempo9::quant
