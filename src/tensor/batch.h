// The rows of one pass through the model.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/kv_view.h"
#include "tensor/views.h"

namespace tempo9::tensor {

// One row is one token of one sequence; kernels do not know whether it is decoded, drafted or part of a prompt. Rows of
// the same sequence are adjacent and in ascending slot order. All spans have one entry per row, but for `outputs`.
// Pages for every slot named here are in the tables before the batch runs.
struct Batch {
  std::span<const int32_t> tokens;
  std::span<const int32_t> sequences;  // index into the KV tables
  std::span<const int32_t> slots;      // index of the token in its sequence: where its K and V go, what it may see
  // Rotary positions: n_rows (equal to the slots for text), or 3 * n_rows in planes: time, height, width.
  std::span<const int32_t> positions;
  std::span<const int32_t> outputs;  // rows whose logits are wanted, ascending
  // One past the last slot that each row sees, where rows see others after them (an image's, spec models 13.4): their K
  // and V are in the pages, or written by this batch. Never below slots + 1; ascends within a sequence. Empty: each row
  // sees up to itself. Sliding windows still begin where the row's own slot says.
  std::span<const int32_t> visible_ends = {};
  KvView kv;
  StateView states;
  MatView<const float> hidden;  // for programs with an Input op: one row per batch row
  // Rows that stand for a part of an image, not for a token: which row of `embeddings` each row of the batch is, or -1.
  // Empty: there are none. Columns: what Embed makes, then what the model's AddEmbedding ops read.
  std::span<const int32_t> embedding_of_row;
  MatView<const float> embeddings;

  // Null for a token.
  const float* embedding(int64_t row) const {
    if (embedding_of_row.empty() || embedding_of_row[static_cast<size_t>(row)] < 0) return nullptr;
    return embeddings.row(embedding_of_row[static_cast<size_t>(row)]);
  }
  // One past the last slot that the row sees.
  int32_t visible_end(int64_t row) const {
    const auto i = static_cast<size_t>(row);
    return visible_ends.empty() ? slots[i] + 1 : visible_ends[i];
  }
  int64_t n_rows() const { return static_cast<int64_t>(tokens.size()); }
  int64_t n_outputs() const { return static_cast<int64_t>(outputs.size()); }
};

}  // namespace tempo9::tensor
