// Q4_0: 4 bits around 8, one scale (spec gguf 4.2, encoder in 6).
#include "quant/encode.h"
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct Q4_0 {
  using Block = BlockQ4_0;
  static constexpr int64_t kElements = 32;
  static constexpr int64_t kGroup = 32;
  static constexpr Offset kOffset = Offset::kNone;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    for (int j = 0; j < 16; ++j) {
      out.q[j] = static_cast<int8_t>((block.qs[j] & 15) - 8);
      out.q[j + 16] = static_cast<int8_t>((block.qs[j] >> 4) - 8);
    }
  }

  // The extreme value gets code 0, which is the one end of the grid that has a whole step more.
  static void encode(const float* values, Block& out) {
    const float d = signed_extreme(values, 32) / -8.0f;
    store_f16(d, out.d);
    encode_codes(values, 0.0f, reciprocal(d), 8.5f, 15, out.qs, nullptr);
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kQ4_0>() {
  return block_type<Q4_0>(tensor::DType::kQ4_0);
}

}  // namespace tempo9::quant
