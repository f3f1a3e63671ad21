// One run of a plan over one batch, as all threads see it: where each row of each cell lies, and the steps' work.
#pragma once

#include <span>

#include "backends/cpu/plan.h"
#include "base/thread_pool.h"
#include "tensor/batch.h"

namespace tempo9::backends::cpu {

// Rows of one sequence that attend together, at most kAttentionRows.
struct RowBlock {
  int64_t begin = 0;
  int64_t rows = 0;
};
inline constexpr int64_t kAttentionRows = 32;

// Memory of one worker.
struct WorkerMemory {
  std::byte* cells = nullptr;    // Plan::bytes_per_row, for passes of one row
  std::byte* scratch = nullptr;  // for matrix products
  float* part = nullptr;         // attention state of a span; see attention_state_floats
  float* total = nullptr;
};

// Floats of the attention state of `n_vectors` query vectors.
inline int64_t attention_state_floats(int64_t n_vectors, int64_t v_head_dim) { return n_vectors * (v_head_dim + 2); }
inline kernels::AttentionState attention_state(float* data, int64_t n_vectors) {
  return {.max = data, .sum = data + n_vectors, .values = data + 2 * n_vectors};
}

// Plain data, constant while the threads run. Everything it points to outlives the pass.
struct Pass {
  const Plan& plan;
  const kernels::Isa& isa;
  const tensor::Batch& batch;
  tensor::MatView<float> logits;
  std::byte* cells = nullptr;  // Plan::bytes_per_row for each of max_rows
  int64_t max_rows = 0;
  std::span<const WorkerMemory> workers;
  std::span<const RowBlock> row_blocks;
  // Attention states of spans that different workers compute, when there is too little else to share.
  std::span<float> span_states;

  int64_t n_rows(tensor::RowSet rows) const {
    return rows == tensor::RowSet::kBatch ? batch.n_rows() : batch.n_outputs();
  }
  bool single_row() const { return batch.n_rows() == 1; }

  // The start of a cell as `worker` sees it.
  std::byte* data(CellId id, int worker) const {
    const Cell& cell = plan.cells[static_cast<size_t>(id)];
    if (cell.is_logits) return reinterpret_cast<std::byte*>(logits.data);
    if (cell.per_worker && single_row()) return workers[static_cast<size_t>(worker)].cells + cell.offset;
    return cells + cell.offset * static_cast<size_t>(max_rows);
  }
  // Rows that the parts of a quantised cell are laid out for.
  int64_t capacity(CellId id) const {
    return plan.cells[static_cast<size_t>(id)].per_worker && single_row() ? 1 : max_rows;
  }
  int64_t stride(CellId id) const {
    const Cell& cell = plan.cells[static_cast<size_t>(id)];
    return cell.is_logits ? logits.stride : static_cast<int64_t>(cell.row_bytes / sizeof(float));
  }
  tensor::MatView<float> view(CellId id, int64_t cols, int worker) const {
    const Cell& cell = plan.cells[static_cast<size_t>(id)];
    return {reinterpret_cast<float*>(data(id, worker)), n_rows(cell.rows), cols, stride(id)};
  }
  float* row(CellId id, int64_t r, int worker) const {
    return reinterpret_cast<float*>(data(id, worker)) + r * stride(id);
  }
};

// Each is called by every worker with the same step; together they do all of it. They end with a barrier unless the
// step is redundant in this pass.
void run_step(const RowStep& step, const Pass& pass, ThreadPool::Worker& worker);
void run_step(const MatMulStep& step, const Pass& pass, ThreadPool::Worker& worker);
void run_step(const AttentionStep& step, const Pass& pass, ThreadPool::Worker& worker);

}  // namespace tempo9::backends::cpu
