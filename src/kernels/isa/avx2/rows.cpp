#include "kernels/kernels.h"

namespace tempo9::kernels::avx2 {

#include "kernels/generic/rows.inl"

extern const RowKernels kRowKernels;
constinit const RowKernels kRowKernels = {
    .rms_norm = nullptr,
    .add = add,
    .gated = nullptr,
    .soft_cap = nullptr,
    .rope_angles = nullptr,
    .rope = nullptr,
    .kv_write = nullptr,
};

}  // namespace tempo9::kernels::avx2
