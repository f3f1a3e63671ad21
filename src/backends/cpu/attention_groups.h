// Which rows attend together: blocks of different sequences whose pages begin alike, as those of agents on one prompt
// do, read these pages once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/batch.h"

namespace tempo9::backends::cpu {

// Rows of one sequence. Those that attend together are at most kAttentionRows.
struct RowBlock {
  int64_t begin = 0;
  int64_t rows = 0;
};
inline constexpr int64_t kAttentionRows = 32;

// Adjacent blocks. All their rows see the first `shared_spans` spans (kernels/attention.h) whole, on the same pages.
struct AttentionGroup {
  int64_t begin = 0;  // its first row in the batch
  int64_t rows = 0;   // at most kAttentionRows
  int64_t first_block = 0;
  int64_t n_blocks = 0;
  int64_t shared_spans = 0;  // 0 if the block is alone
};

// Each block by itself: for layers with a window, which begins somewhere else for each row.
void blocks_alone(std::span<const RowBlock> blocks, std::vector<AttentionGroup>& groups);

// The groups of the layers without a window whose pages are in `pool`.
void group_blocks(const tensor::Batch& batch, int32_t pool, std::span<const RowBlock> blocks,
                  std::vector<AttentionGroup>& groups);

}  // namespace tempo9::backends::cpu
