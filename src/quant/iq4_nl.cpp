// IQ4_NL: 4-bit codes of 16 uneven values, one scale (spec gguf 4.2).
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct IQ4_NL {
  using Block = BlockIQ4_NL;
  static constexpr int64_t kElements = 32;
  static constexpr int64_t kGroup = 32;
  static constexpr Offset kOffset = Offset::kNone;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    for (int j = 0; j < 16; ++j) {
      out.q[j] = kIq4NlValues[block.qs[j] & 15];
      out.q[j + 16] = kIq4NlValues[block.qs[j] >> 4];
    }
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kIQ4_NL>() {
  return block_type<IQ4_NL>(tensor::DType::kIQ4_NL);
}

}  // namespace tempo9::quant
