#include "kernels/attention.h"

#include <bit>
#include <cfloat>
#include <type_traits>

#include "kernels/isa/scalar/quantize.h"
#include "kernels/isa/scalar/vec.h"
#include "kernels/kernels.h"
// The generic text needs the vocabularies above it.
#include "kernels/generic/attention.inl"
#include "kernels/generic/query_codes.h"

namespace tempo9::kernels::scalar {
namespace {

// scores[i][key] for the query vectors [first, first + n): blocks of 32 columns in ascending order, each an exact
// integer and one fma (numeric contract C1).
void score_codes(const QueryCodes& queries, int64_t first, int64_t n, const int8_t* k, const uint16_t* k_scales,
                 float* scores) {
  for (int64_t i = 0; i < n; ++i) {
    const int8_t* q = queries.codes + (first + i) * queries.n_blocks * 32;
    const float* d = queries.scales + (first + i) * queries.n_blocks;
    for (int64_t key = 0; key < kTile; ++key) {
      float score = 0.0f;
      for (int64_t b = 0; b < queries.n_blocks; ++b) {
        int32_t dot = 0;
        for (int64_t c = 32 * b; c < 32 * b + 32; ++c) dot += q[c] * k[(c / 4 * kTile + key) * 4 + c % 4];
        const float scale = quant::f16_to_f32(k_scales[b * kTile + key]) * d[b];
        score = __builtin_fmaf(static_cast<float>(dot), scale, score);
      }
      scores[i * kTile + key] = score;
    }
  }
}

}  // namespace
}  // namespace tempo9::kernels::scalar

#include "kernels/generic/attention_q8.inl"
