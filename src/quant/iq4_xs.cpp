// IQ4_XS: 4-bit codes of 16 uneven values, 6-bit signed scale per 32 (spec gguf 4.3).
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct IQ4_XS {
  using Block = BlockIQ4_XS;
  static constexpr int64_t kElements = 256;
  static constexpr int64_t kGroup = 32;
  static constexpr Offset kOffset = Offset::kNone;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    const int scales_high = load_u16(block.scales_h);
    for (int group = 0; group < 8; ++group) {
      const int low = (block.scales_l[group / 2] >> (4 * (group % 2))) & 15;
      const int high = (scales_high >> (2 * group)) & 3;
      out.scale[group] = static_cast<int16_t>((low | high << 4) - 32);
      const uint8_t* qs = block.qs + 16 * group;
      for (int j = 0; j < 16; ++j) {
        out.q[32 * group + j] = kIq4NlValues[qs[j] & 15];
        out.q[32 * group + j + 16] = kIq4NlValues[qs[j] >> 4];
      }
    }
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kIQ4_XS>() {
  return block_type<IQ4_XS>(tensor::DType::kIQ4_XS);
}

}  // namespace tempo9::quant
