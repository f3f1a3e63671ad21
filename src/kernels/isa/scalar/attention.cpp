#include "kernels/attention.h"

#include "kernels/isa/scalar/vec.h"
#include "kernels/kernels.h"
// The generic text needs the vocabulary above it.
#include "kernels/generic/attention.inl"

namespace tempo9::kernels::scalar {

extern const AttentionKernels kAttentionF16;
constinit const AttentionKernels kAttentionF16 = attention_kernels<uint16_t>();
extern const AttentionKernels kAttentionF32;
constinit const AttentionKernels kAttentionF32 = attention_kernels<float>();

}  // namespace tempo9::kernels::scalar
