#include "kernels/recurrent.h"

#include "kernels/isa/avx2/vec.h"
#include "kernels/kernels.h"
// The generic text needs the vocabulary above it.
#include "kernels/generic/recurrent.inl"

namespace tempo9::kernels::avx2 {

extern const RecurrentKernels kRecurrentKernels;
constinit const RecurrentKernels kRecurrentKernels = {
    .causal_conv = causal_conv,
    .delta_net = delta_net,
};

}  // namespace tempo9::kernels::avx2
