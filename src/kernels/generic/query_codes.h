// Query vectors as int8 codes, in a thread's scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"

namespace tempo9::kernels::T9_ISA {
namespace {

// Vector i has its codes at codes + 32 n_blocks i, and per 32 of them a scale and the sum of the codes.
struct QueryCodes {
  int64_t n_blocks;
  int8_t* codes;
  float* scales;
  int16_t* sums;

  QueryCodes(std::byte* scratch, const AttentionShape& shape, int64_t n_vectors)
      : n_blocks(padded_head_dim(shape.k_head_dim) / 32),
        codes(reinterpret_cast<int8_t*>(scratch)),
        scales(reinterpret_cast<float*>(scratch + n_vectors * n_blocks * 32)),
        sums(reinterpret_cast<int16_t*>(scratch + n_vectors * n_blocks * 36)) {}
};

}  // namespace
}  // namespace tempo9::kernels::T9_ISA
