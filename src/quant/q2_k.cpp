// Q2_K: 2 bits, 4-bit scale and min per 16 (spec gguf 4.3).
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct Q2_K {
  using Block = BlockQ2_K;
  static constexpr int64_t kElements = 256;
  static constexpr int64_t kGroup = 16;
  static constexpr Offset kOffset = Offset::kMin;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    out.dmin = f16_to_f32(load_u16(block.dmin));
    for (int group = 0; group < 16; ++group) {
      out.scale[group] = block.scales[group] & 15;
      out.min[group] = block.scales[group] >> 4;
    }
    for (int run = 0; run < 8; ++run) {
      const uint8_t* qs = block.qs + 32 * (run / 4);
      for (int l = 0; l < 32; ++l) out.q[32 * run + l] = static_cast<int8_t>((qs[l] >> (2 * (run % 4))) & 3);
    }
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kQ2_K>() {
  return block_type<Q2_K>(tensor::DType::kQ2_K);
}

}  // namespace tempo9::quant
