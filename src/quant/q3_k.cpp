// Q3_K: 3 bits, 6-bit signed scale per 16 (spec gguf 4.3).
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct Q3_K {
  using Block = BlockQ3_K;
  static constexpr int64_t kElements = 256;
  static constexpr int64_t kGroup = 16;
  static constexpr Offset kOffset = Offset::kNone;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    int8_t scales[16];
    unpack_q3_k_scales(block.scales, scales);
    for (int group = 0; group < 16; ++group) out.scale[group] = scales[group];
    for (int run = 0; run < 8; ++run) {
      const uint8_t* qs = block.qs + 32 * (run / 4);
      for (int l = 0; l < 32; ++l) {
        const int low = (qs[l] >> (2 * (run % 4))) & 3;
        const int high = (block.hmask[l] >> run) & 1;
        out.q[32 * run + l] = static_cast<int8_t>((low | high << 2) - 4);
      }
    }
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kQ3_K>() {
  return block_type<Q3_K>(tensor::DType::kQ3_K);
}

}  // namespace tempo9::quant
