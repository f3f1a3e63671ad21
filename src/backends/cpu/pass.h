// One run of a plan over one batch, as all threads see it: where each row of each cell lies, and the work of the steps.
#pragma once

#include <span>

#include "backends/backend.h"
#include "backends/cpu/attention_groups.h"
#include "backends/cpu/plan.h"
#include "tensor/batch.h"

namespace tempo9::backends::cpu {

// Memory of one worker.
struct WorkerMemory {
  std::byte* scratch = nullptr;  // Plan::scratch_bytes
  float* part = nullptr;         // attention state of a span; see attention_state_floats
  float* total = nullptr;
};

// Floats of the attention state of `n_vectors` query vectors.
inline int64_t attention_state_floats(int64_t n_vectors, int64_t v_head_dim) { return n_vectors * (v_head_dim + 2); }
inline kernels::AttentionState attention_state(float* data, int64_t n_vectors) {
  return {.max = data, .sum = data + n_vectors, .values = data + 2 * n_vectors};
}

// What ChooseOp leaves for a row: its experts in descending order of their logits and their weights. Sorting adds the
// place of each pair of (row, expert) among all.
struct ExpertChoices {
  int32_t* experts;
  float* weights;
  int32_t* places;
  static size_t bytes(int64_t n_used) { return static_cast<size_t>(n_used) * 12; }
};
inline ExpertChoices expert_choices(float* row, int64_t n_used) {
  auto* ids = reinterpret_cast<int32_t*>(row);
  return {.experts = ids, .weights = row + n_used, .places = ids + 2 * n_used};
}

// Pairs [first, first + size) of the sorted ones: rows that go through `expert` together.
struct ExpertTile {
  int32_t expert;
  int32_t first;
  int32_t size;
};
struct ExpertTiles {
  int32_t* count;
  ExpertTile* tiles;  // at most one per pair
  int32_t* rows;      // of each pair, sorted
  // The bytes of a batch are shared, so each row has room for the count.
  static size_t row_bytes(int64_t n_used) {
    return sizeof(int32_t) + static_cast<size_t>(n_used) * (sizeof(ExpertTile) + sizeof(int32_t));
  }
};
inline ExpertTiles expert_tiles(std::byte* data, int64_t n_pairs) {
  auto* count = reinterpret_cast<int32_t*>(data);
  auto* tiles = reinterpret_cast<ExpertTile*>(count + 1);
  return {.count = count, .tiles = tiles, .rows = reinterpret_cast<int32_t*>(tiles + n_pairs)};
}

class TrialRows;

// Plain data, constant while the threads run. Everything it points to outlives the pass.
struct Pass {
  const Plan& plan;
  const kernels::Isa& isa;
  const tensor::Batch& batch;
  RunOutputs outputs;
  std::byte* cells = nullptr;  // Plan::bytes_per_row for each row of the batch
  std::span<const WorkerMemory> workers;
  std::span<const RowBlock> sequence_rows;  // all rows of each sequence
  std::span<const RowBlock> row_blocks;     // the same, cut for attention
  // The blocks that attend together, by pool of pages; for layers with a window.
  std::span<const std::vector<AttentionGroup>> attention_groups;
  std::span<const AttentionGroup> window_groups;
  // Attention states of spans that different workers compute, when there is too little else to share.
  std::span<float> span_states;
  const TrialRows& trial;

  int64_t n_rows(tensor::RowSet rows) const {
    return rows == tensor::RowSet::kBatch ? batch.n_rows() : batch.n_outputs();
  }
  int64_t n_workers() const { return std::ssize(workers); }

  const Cell& cell(CellId id) const { return plan.cells[static_cast<size_t>(id)]; }
  std::byte* data(CellId id) const { return cells + cell(id).offset * static_cast<size_t>(batch.n_rows()); }
  tensor::MatView<float> view(CellId id, int64_t cols) const {
    const Cell& c = cell(id);
    const int64_t rows = n_rows(c.rows);
    if (c.place == Cell::Place::kLogits) return {outputs.logits.data, rows, cols, outputs.logits.stride};
    if (c.place == Cell::Place::kHidden && outputs.hidden.data != nullptr) {
      return {outputs.hidden.data, rows, cols, outputs.hidden.stride};
    }
    return {reinterpret_cast<float*>(data(id)), rows, cols, static_cast<int64_t>(c.row_bytes / sizeof(float))};
  }
  float* row(CellId id, int64_t r) const { return view(id, 0).row(r); }
  kernels::QuantizedRows quantized(CellId id, kernels::ActFormat format, int64_t cols) const {
    return quantized_view(data(id), format, n_rows(cell(id).rows), cols);
  }
};

// A step has up to kPhases stages, whose chunks the workers share (base/thread_pool.h).
inline constexpr int64_t kPhases = 3;
int64_t n_chunks(const RowStep& step, const Pass& pass, int64_t phase);
int64_t n_chunks(const MatMulStep& step, const Pass& pass, int64_t phase);
int64_t n_chunks(const AttentionStep& step, const Pass& pass, int64_t phase);
int64_t n_chunks(const ExpertsStep& step, const Pass& pass, int64_t phase);
int64_t n_chunks(const ConvStep& step, const Pass& pass, int64_t phase);
int64_t n_chunks(const DeltaNetStep& step, const Pass& pass, int64_t phase);
void run_chunk(const RowStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker);
void run_chunk(const MatMulStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker);
void run_chunk(const AttentionStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker);
void run_chunk(const ExpertsStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker);
void run_chunk(const ConvStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker);
void run_chunk(const DeltaNetStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker);

}  // namespace tempo9::backends::cpu
