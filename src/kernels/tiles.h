// Weights in tiles: Layout::kTiled. A tile is the same block of n consecutive rows (n = MatMulKernels::tile_rows, the
// rows that the instruction set holds side by side), tiles follow each other along the rows, and the rows of one
// group of n are followed by those of the next. Same bytes as in the file in another order: row r of a weight begins
// at WeightView::row(r) if r is a multiple of n.
//
// Inside a tile, what lies at byte i of each block lies at n * i, row beside row, in units: numbers of 4 bytes; before
// them what a block of 32 values has over a multiple of 4 (its half-precision scale; the exponent of MXFP4), after them
// what a block of 256 values has (d of Q3_K and Q6_K). So one load gives the same 4 codes of n rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "tensor/views.h"

namespace tempo9::kernels {

// Bytes of a block before its 4-byte units. Also compiled with the flags of one instruction set: internal linkage.
static inline int64_t tile_head_bytes(int64_t block_elements, int64_t block_bytes) {
  return block_elements == 32 ? block_bytes % 4 : 0;
}

// Whether the set makes tiles of a weight: a type with a kernel of its own, and whole pairs of groups, so that parts of
// 2 n rows have them too.
bool can_tile(const MatMulKernels& kernels, const WeightView& weight);

// The blocks of one row as they lie in a file. `out` has weight.row_bytes.
// REQUIRES: the weight's layout is kTiled, made by the set with these `tile_rows`.
void read_tiled_row(const WeightView& weight, int64_t tile_rows, int64_t row, std::byte* out);

}  // namespace tempo9::kernels
