// Q4_K: 4 bits, 6-bit scale and min per 32 (spec gguf 4.3, encoder in 6).
#include <algorithm>
#include <cmath>

#include "quant/encode.h"
#include "quant/types.h"

namespace tempo9::quant {
namespace {

// A group as x ~ scale * q - min with q in 0..15; both are >= 0.
struct GroupFit {
  float scale = 0.0f;
  float min = 0.0f;
};

// What the search weighs errors with: large values count more.
void importance(const float (&x)[32], float (&weights)[32]) {
  float sum = 0.0f;
  for (float value : x) sum += value * value;
  const float rms = std::sqrt(sum / 32.0f);
  for (int i = 0; i < 32; ++i) weights[i] = rms + std::fabs(x[i]);
}

void round_codes(const float (&x)[32], float low, float inverse, float (&codes)[32]) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<float>(round_even((x[i] - low) * inverse, 0, 15));
}

float weighted_error(const float (&x)[32], const float (&weights)[32], const float (&codes)[32], float scale,
                     float low) {
  float error = 0.0f;
  for (int i = 0; i < 32; ++i) {
    const float difference = scale * codes[i] + low - x[i];
    error += weights[i] * difference * difference;
  }
  return error;
}

// The least-squares line through given codes, kept from starting above zero. False when the codes do not fix one.
bool fit_line(const float (&x)[32], const float (&weights)[32], const float (&codes)[32], float& scale, float& low) {
  float w = 0.0f, wx = 0.0f, wq = 0.0f, wqq = 0.0f, wqx = 0.0f;
  for (int i = 0; i < 32; ++i) {
    w += weights[i];
    wx += weights[i] * x[i];
    wq += weights[i] * codes[i];
    wqq += weights[i] * codes[i] * codes[i];
    wqx += weights[i] * codes[i] * x[i];
  }
  const float determinant = w * wqq - wq * wq;
  if (!(determinant > 0.0f)) return false;
  scale = (w * wqx - wx * wq) / determinant;
  low = (wqq * wx - wq * wqx) / determinant;
  if (low > 0.0f) {
    low = 0.0f;
    scale = wqx / wqq;
  }
  return true;
}

// Ranges below this are flat: their scale is 0 in f16 in any case, and their squares would leave the range of f32.
constexpr float kFlatRange = 1e-15f;

GroupFit fit_group(const float (&x)[32]) {
  const auto [least, greatest] = std::minmax_element(x, x + 32);
  const float low = std::min(0.0f, *least);
  const float range = *greatest - low;
  if (!(range > kFlatRange)) return {.scale = 0.0f, .min = -low};

  float weights[32];
  importance(x, weights);
  float codes[32];
  GroupFit best{.scale = range / 15.0f, .min = -low};
  round_codes(x, low, 15.0f / range, codes);
  float best_error = weighted_error(x, weights, codes, best.scale, low);
  for (int step = 0; step <= 20; ++step) {
    round_codes(x, low, (14.0f + 0.1f * static_cast<float>(step)) / range, codes);
    float fitted_scale, fitted_low;
    if (!fit_line(x, weights, codes, fitted_scale, fitted_low)) continue;
    const float error = weighted_error(x, weights, codes, fitted_scale, fitted_low);
    if (error < best_error) {
      best_error = error;
      best = {.scale = fitted_scale, .min = -fitted_low};
    }
  }
  return best;
}

// The reverse of unpack_k4_scales.
void pack_k4_scales(const int (&scales)[8], const int (&mins)[8], uint8_t (&packed)[12]) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(scales[j] | (scales[j + 4] >> 4) << 6);
    packed[j + 4] = static_cast<uint8_t>(mins[j] | (mins[j + 4] >> 4) << 6);
    packed[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | (mins[j + 4] & 15) << 4);
  }
}

struct Q4_K {
  using Block = BlockQ4_K;
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
    for (int pair = 0; pair < 4; ++pair) {
      const uint8_t* qs = block.qs + 32 * pair;
      for (int l = 0; l < 32; ++l) {
        out.q[64 * pair + l] = static_cast<int8_t>(qs[l] & 15);
        out.q[64 * pair + 32 + l] = static_cast<int8_t>(qs[l] >> 4);
      }
    }
  }

  static void encode(const float* values, Block& out) {
    GroupFit fits[8];
    float max_scale = 0.0f, max_min = 0.0f;
    for (int group = 0; group < 8; ++group) {
      float x[32];
      std::copy_n(values + 32 * group, 32, x);
      fits[group] = fit_group(x);
      max_scale = std::max(max_scale, fits[group].scale);
      max_min = std::max(max_min, fits[group].min);
    }
    const float d = store_f16(max_scale / 63.0f, out.d);
    const float dmin = store_f16(max_min / 63.0f, out.dmin);
    const float scale_steps = reciprocal(max_scale / 63.0f);
    const float min_steps = reciprocal(max_min / 63.0f);
    int scales[8], mins[8];
    for (int group = 0; group < 8; ++group) {
      scales[group] = round_even(scale_steps * fits[group].scale, 0, 63);
      mins[group] = round_even(min_steps * fits[group].min, 0, 63);
    }
    pack_k4_scales(scales, mins, out.scales);

    uint8_t codes[256];
    for (int i = 0; i < 256; ++i) {
      const float scale = d * static_cast<float>(scales[i / 32]);
      const float min = dmin * static_cast<float>(mins[i / 32]);
      codes[i] = scale > 0.0f ? static_cast<uint8_t>(round_even((values[i] + min) / scale, 0, 15)) : 0;
    }
    for (int i = 0; i < 128; ++i) {
      const int first = 64 * (i / 32) + i % 32;
      out.qs[i] = static_cast<uint8_t>(codes[first] | codes[first + 32] << 4);
    }
  }
};

}  // namespace

template <>
QuantType describe<tensor::DType::kQ4_K>() {
  return block_type<Q4_K>(tensor::DType::kQ4_K);
}

}  // namespace tempo9::quant
