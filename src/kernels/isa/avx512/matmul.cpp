// Matrix products for AVX-512 with VNNI.
#include <bit>
#include <cfloat>
#include <type_traits>
#include <utility>

#include "kernels/isa/avx512/matmul_vec.h"
#include "kernels/kernels.h"
#include "quant/quant.h"

namespace tempo9::kernels::avx512 {
namespace {

#include "kernels/generic/matmul_plain.inl"
// Types before products.
#include "kernels/generic/matmul_types.inl"
//
#include "kernels/generic/matmul_product.inl"

MatMulQuant find_quant(tensor::DType dtype) {
  return with_type(
      dtype, [](auto type) -> MatMulQuant { return matmul<typename decltype(type)::type>; }, MatMulQuant{});
}
MatMulFloat find_float(tensor::DType) { return matmul_plain_float; }
bool is_native(tensor::DType dtype) {
  return with_type(
      dtype, [](auto) { return true; }, false);
}
size_t scratch_bytes(const WeightView& weight) {
  return with_type(
      weight.dtype, [&](auto type) { return matmul_scratch_bytes<typename decltype(type)::type>(weight); }, size_t{0});
}

}  // namespace

extern const MatMulKernels kMatMulKernels;
const MatMulKernels kMatMulKernels = {
    .quantize = quantize_plain,
    .quant = find_quant,
    .floating = find_float,
    .is_native = is_native,
    .scratch_bytes = scratch_bytes,
    .row_granule = 2 * kLanes,
};

}  // namespace tempo9::kernels::avx512
