// Matrix products for AVX-512 with VNNI: the generic text over this ISA's vectors.
#include <bit>
#include <cfloat>
#include <type_traits>
#include <utility>

#include "kernels/isa/avx512/matmul_vec.h"
#include "kernels/kernels.h"
#include "kernels/tiles.h"

namespace tempo9::kernels::avx512 {
namespace {

// In this order: each uses the ones before.
// clang-format off
#include "kernels/generic/matmul_types.inl"
#include "kernels/generic/matmul_groups.inl"
#include "kernels/generic/matmul_product.inl"
#include "kernels/generic/quantize.inl"
#include "kernels/generic/matmul_float.inl"
// clang-format on

}  // namespace

extern const MatMulKernels kMatMulKernels;
const MatMulKernels kMatMulKernels = {
    .quantize = quantize,
    .quant = find_quant,
    .floating = find_float,
    .is_native = is_native,
    .scratch_bytes = scratch_bytes,
    .row_granule = 2 * kLanes,
    .tile_rows = kLanes,
    .write_tiles = write_tiles,
};

}  // namespace tempo9::kernels::avx512
