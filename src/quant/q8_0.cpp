// Q8_0: 8 bits, one scale (spec gguf 4.2, encoder in 6).
#include <cmath>

#include "quant/encode.h"
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct Q8_0 {
  using Block = BlockQ8_0;
  static constexpr int64_t kElements = 32;
  static constexpr int64_t kGroup = 32;
  static constexpr Offset kOffset = Offset::kNone;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    for (int i = 0; i < 32; ++i) out.q[i] = block.qs[i];
  }

  static void encode(const float* values, Block& out) {
    const float d = std::fabs(signed_extreme(values, 32)) / 127.0f;
    const float inverse = reciprocal(d);
    store_f16(d, out.d);
    for (int i = 0; i < 32; ++i) out.qs[i] = static_cast<int8_t>(std::round(values[i] * inverse));
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kQ8_0>() {
  return block_type<Q8_0>(tensor::DType::kQ8_0);
}

}  // namespace tempo9::quant
