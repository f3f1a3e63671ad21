// Q6_K: 6 bits around 32, 8-bit signed scale per 16 (spec gguf 4.3, encoder in 6).
#include <cmath>

#include "quant/encode.h"
#include "quant/types.h"

namespace tempo9::quant {
namespace {

// Magnitudes below this are zero: their scale is 0 in f16 in any case.
constexpr float kZeroMagnitude = 1e-15f;

// Signed scale s with which x ~ s * l, l in -32..31, has the least error weighted by x^2.
float fit_scale(const float* x) {
  const float extreme = signed_extreme(x, 16);
  if (std::fabs(extreme) < kZeroMagnitude) return 0.0f;
  float best_scale = 0.0f;
  float best_gain = -1.0f;
  // Step 0 comes first, so that it wins ties.
  for (int step : {0, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    const float inverse = -(32.0f + 0.1f * static_cast<float>(step)) / extreme;
    float wxl = 0.0f, wll = 0.0f;
    for (int i = 0; i < 16; ++i) {
      const float code = static_cast<float>(round_even(inverse * x[i], -32, 31));
      const float weight = x[i] * x[i];
      wxl += weight * x[i] * code;
      wll += weight * code * code;
    }
    const float gain = wxl * wxl / wll;
    if (gain > best_gain) {
      best_gain = gain;
      best_scale = wxl / wll;
    }
  }
  return best_scale;
}

struct Q6_K {
  using Block = BlockQ6_K;
  static constexpr int64_t kElements = 256;
  static constexpr int64_t kGroup = 16;
  static constexpr Offset kOffset = Offset::kNone;

  static void unpack(const Block& block, IntBlock& out) {
    out.d = f16_to_f32(load_u16(block.d));
    for (int group = 0; group < 16; ++group) out.scale[group] = block.sc[group];
    for (int run = 0; run < 8; ++run) {
      const int half = run / 4;
      const int quarter = run % 4;
      const uint8_t* ql = block.ql + 64 * half + 32 * (quarter % 2);
      const uint8_t* qh = block.qh + 32 * half;
      for (int l = 0; l < 32; ++l) {
        const int low = (ql[l] >> (4 * (quarter / 2))) & 15;
        const int high = (qh[l] >> (2 * quarter)) & 3;
        out.q[32 * run + l] = static_cast<int8_t>((low | high << 4) - 32);
      }
    }
  }

  static void encode(const float* values, Block& out) {
    float fits[16];
    for (int group = 0; group < 16; ++group) fits[group] = fit_scale(values + 16 * group);
    const float extreme = signed_extreme(fits, 16);
    const float steps = std::fabs(extreme) < kZeroMagnitude ? 0.0f : -128.0f / extreme;
    const float d = store_f16(reciprocal(steps), out.d);
    for (int group = 0; group < 16; ++group) {
      out.sc[group] = static_cast<int8_t>(round_even(steps * fits[group], -128, 127));
    }
    uint8_t codes[256];
    for (int i = 0; i < 256; ++i) {
      const float scale = d * static_cast<float>(out.sc[i / 16]);
      codes[i] = static_cast<uint8_t>(scale != 0.0f ? round_even(values[i] / scale, -32, 31) + 32 : 32);
    }
    pack(codes, out);
  }

  static void pack(const uint8_t (&codes)[256], Block& out) {
    for (int i = 0; i < 64; ++i) {
      const int half = i / 32;
      const int l = i % 32;
      const uint8_t* c = codes + 128 * half + l;
      out.ql[64 * half + l] = static_cast<uint8_t>((c[0] & 15) | (c[64] & 15) << 4);
      out.ql[64 * half + 32 + l] = static_cast<uint8_t>((c[32] & 15) | (c[96] & 15) << 4);
      out.qh[i] = static_cast<uint8_t>(c[0] >> 4 | (c[32] >> 4) << 2 | (c[64] >> 4) << 4 | (c[96] >> 4) << 6);
    }
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kQ6_K>() {
  return block_type<Q6_K>(tensor::DType::kQ6_K);
}

}  // namespace tempo9::quant
