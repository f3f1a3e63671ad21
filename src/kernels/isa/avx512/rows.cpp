#include <bit>

#include "kernels/isa/avx512/vec.h"
#include "kernels/kernels.h"
// The generic text needs the vocabulary above it.
#include "kernels/generic/rows.inl"

namespace tempo9::kernels::avx512 {

extern const RowKernels kRowKernels;
constinit const RowKernels kRowKernels = {
    .rms_norm = rms_norm,
    .add = add,
    .scale = scale,
    .gate_row = gate_row,
    .position_scale = position_scale,
    .gated = gated,
    .soft_cap = soft_cap,
    .choose_experts = choose_experts,
    .weighted_sum = weighted_sum,
    .rope_angles = rope_angles,
    .rope = rope,
};

}  // namespace tempo9::kernels::avx512
