#include "kernels/attention.h"

#include "kernels/isa/scalar/vec.h"
#include "kernels/kernels.h"
// The generic text needs the vocabulary above it.
#include "kernels/generic/attention.inl"

namespace tempo9::kernels::scalar {

extern const AttentionKernels kAttentionF16;
constinit const AttentionKernels kAttentionF16 = {
    .write = write,
    .attend_span = attend_span,
    .merge = merge,
    .finish = finish,
};

}  // namespace tempo9::kernels::scalar
