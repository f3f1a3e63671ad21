// Q5_K: 5 bits, 6-bit scale and min per 32 (spec gguf 4.3).
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct Q5_K {
  using Block = BlockQ5_K;
  static constexpr int64_t kElements = 256;
  static constexpr int64_t kGroup = 32;
  static constexpr Offset kOffset = Offset::kMin;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    out.dmin = f16_to_f32(load_u16(block.dmin));
    uint8_t scales[8];
    uint8_t mins[8];
    unpack_k4_scales(block.scales, scales, mins);
    for (int group = 0; group < 8; ++group) {
      out.scale[group] = scales[group];
      out.min[group] = mins[group];
    }
    for (int group = 0; group < 8; ++group) {
      const uint8_t* qs = block.qs + 32 * (group / 2);
      for (int l = 0; l < 32; ++l) {
        const int low = (qs[l] >> (4 * (group % 2))) & 15;
        const int high = (block.qh[l] >> group) & 1;
        out.q[32 * group + l] = static_cast<int8_t>(low | high << 4);
      }
    }
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kQ5_K>() {
  return block_type<Q5_K>(tensor::DType::kQ5_K);
}

}  // namespace tempo9::quant
