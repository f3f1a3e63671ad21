// MXFP4: E2M1 codes with a power-of-two scale (OCP microscaling; spec gguf 4.2, encoder in 6).
#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/encode.h"
#include "quant/types.h"

namespace tempo9::quant {
namespace {

struct MXFP4 {
  using Block = BlockMXFP4;
  static constexpr int64_t kElements = 32;
  static constexpr int64_t kGroup = 32;
  static constexpr Offset kOffset = Offset::kNone;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = mxfp4_scale(block.e);
    for (int j = 0; j < 16; ++j) {
      out.q[j] = kMxfp4Values[block.qs[j] & 15];
      out.q[j + 16] = kMxfp4Values[block.qs[j] >> 4];
    }
  }

  // The scale puts the largest magnitude into [4, 8) of the E2M1 grid, whose end is 6: larger values saturate, as the
  // standard wants.
  static void encode(const float* values, Block& out) {
    out.e = shared_exponent(std::fabs(signed_extreme(values, 32)));
    const float scale = mxfp4_scale(out.e);
    for (int j = 0; j < 16; ++j) {
      out.qs[j] = static_cast<uint8_t>(nearest_code(values[j], scale) | nearest_code(values[j + 16], scale) << 4);
    }
  }

  static uint8_t shared_exponent(float max_magnitude) {
    if (max_magnitude == 0.0f) return 0;
    int exponent;  // one above floor(log2)
    std::frexp(max_magnitude, &exponent);
    return static_cast<uint8_t>(std::clamp(exponent - 1 - 2 + 127, 0, 254));
  }

  // The lowest code on ties, so that zero is 0 and never -0.
  static int nearest_code(float value, float scale) {
    int best = 0;
    float best_error = std::numeric_limits<float>::infinity();
    for (int code = 0; code < 16; ++code) {
      const float error = std::fabs(static_cast<float>(kMxfp4Values[code]) * scale - value);
      if (error < best_error) {
        best = code;
        best_error = error;
      }
    }
    return best;
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kMXFP4>() {
  return block_type<MXFP4>(tensor::DType::kMXFP4);
}

}  // namespace tempo9::quant
