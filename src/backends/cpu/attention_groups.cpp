#include "backends/cpu/attention_groups.h"

#include <algorithm>

#include "kernels/attention.h"

namespace tempo9::backends::cpu {
namespace {

AttentionGroup alone(std::span<const RowBlock> blocks, int64_t index) {
  const RowBlock& block = blocks[static_cast<size_t>(index)];
  return {.begin = block.begin, .rows = block.rows, .first_block = index, .n_blocks = 1, .shared_spans = 0};
}

std::span<const int32_t> pages_of(const tensor::Batch& batch, int32_t pool, int64_t row) {
  return batch.kv.table(pool, batch.sequences[static_cast<size_t>(row)]).pages;
}

// Spans that each of the block's rows sees whole: the first row sees the least.
int64_t whole_spans(const tensor::Batch& batch, const RowBlock& block) {
  return batch.visible_end(block.begin) / kernels::kSpanTokens;
}

// Spans at the beginning whose pages are the same.
int64_t common_spans(std::span<const int32_t> a, std::span<const int32_t> b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  return (end - a.begin()) / kernels::kSpanPages;
}

}  // namespace

void blocks_alone(std::span<const RowBlock> blocks, std::vector<AttentionGroup>& groups) {
  groups.clear();
  for (int64_t i = 0; i < std::ssize(blocks); ++i) groups.push_back(alone(blocks, i));
}

void group_blocks(const tensor::Batch& batch, int32_t pool, std::span<const RowBlock> blocks,
                  std::vector<AttentionGroup>& groups) {
  groups.clear();
  for (int64_t i = 0; i < std::ssize(blocks); ++i) {
    const RowBlock& block = blocks[static_cast<size_t>(i)];
    if (!groups.empty() && groups.back().rows + block.rows <= kAttentionRows) {
      AttentionGroup& group = groups.back();
      int64_t limit = whole_spans(batch, block);
      limit = std::min(limit, group.n_blocks > 1 ? group.shared_spans
                                                 : whole_spans(batch, blocks[static_cast<size_t>(group.first_block)]));
      const int64_t shared =
          std::min(limit, common_spans(pages_of(batch, pool, group.begin), pages_of(batch, pool, block.begin)));
      // One that shares little must not take from the others what they share.
      if (shared > 0 && 2 * shared >= group.shared_spans) {
        group.rows += block.rows;
        ++group.n_blocks;
        group.shared_spans = shared;
        continue;
      }
    }
    groups.push_back(alone(blocks, i));
  }
}

}  // namespace tempo9::backends::cpu
