#include "kernels/attention.h"

#include <bit>
#include <cfloat>
#include <type_traits>

#include "kernels/isa/avx2/matmul_vec.h"
#include "kernels/isa/avx2/vec.h"
#include "kernels/kernels.h"
// The generic text needs the vocabularies above it.
#include "kernels/generic/attention.inl"
#include "kernels/generic/query_codes.h"

namespace tempo9::kernels::avx2 {
namespace {

// clang-format off
#include "kernels/generic/quantize.inl"
#include "kernels/generic/attention_q8_scores.inl"
// clang-format on

}  // namespace
}  // namespace tempo9::kernels::avx2

#include "kernels/generic/attention_q8.inl"

namespace tempo9::kernels::avx2 {

extern const AttentionKernels kAttentionQ8;
constinit const AttentionKernels kAttentionQ8 = {
    .write = write_q8, .attend_span = attend_span_q8, .merge = merge, .finish = finish};

}  // namespace tempo9::kernels::avx2
