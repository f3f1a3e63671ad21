// Matrix products in plain C++: the definition of the numbers.
#include <bit>
#include <cfloat>

#include "kernels/kernels.h"
#include "quant/quant.h"

namespace tempo9::kernels::T9_ISA {
namespace {

#include "kernels/generic/matmul_plain.inl"

MatMulQuant find_quant(tensor::DType) { return matmul_plain_quant; }
MatMulFloat find_float(tensor::DType) { return matmul_plain_float; }
bool is_native(tensor::DType) { return false; }
size_t scratch_bytes(const WeightView&) { return 0; }

}  // namespace

extern const MatMulKernels kMatMulKernels;
const MatMulKernels kMatMulKernels = {
    .quantize = quantize_plain,
    .quant = find_quant,
    .floating = find_float,
    .is_native = is_native,
    .scratch_bytes = scratch_bytes,
    .row_granule = 1,
};

}  // namespace tempo9::kernels::T9_ISA
