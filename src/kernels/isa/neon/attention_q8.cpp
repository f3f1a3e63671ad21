#include "kernels/attention.h"

#include <bit>
#include <cfloat>
#include <type_traits>

#include "kernels/isa/neon/matmul_vec.h"
#include "kernels/isa/scalar/vec.h"
#include "kernels/kernels.h"
// The generic text needs the vocabularies above it.
#include "kernels/generic/attention_q8_vectors.inl"
