// Matrix products for AVX-VNNI, in 256 bits: the generic text over this ISA's vectors.
#include <cpuid.h>

#include <bit>
#include <cfloat>
#include <type_traits>
#include <utility>

#include "kernels/isa/avx2/matmul_vec.h"
#include "kernels/kernels.h"
#include "kernels/tiles.h"

namespace tempo9::kernels::avxvnni {
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

// Asked by number, since not all compilers know the feature by name.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 1u << 4) != 0;
}

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

}  // namespace tempo9::kernels::avxvnni
