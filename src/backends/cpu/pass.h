// One run of a plan over one batch, as all threads see it: where each row of each cell lies, and the work of the steps.
#pragma once

#include <span>

#include "backends/backend.h"
#include "backends/cpu/plan.h"
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
  RunOutputs outputs;
  std::byte* cells = nullptr;  // Plan::bytes_per_row for each row of the batch
  std::span<const WorkerMemory> workers;
  std::span<const RowBlock> row_blocks;
  // Attention states of spans that different workers compute, when there is too little else to share.
  std::span<float> span_states;

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
inline constexpr int64_t kPhases = 2;
int64_t n_chunks(const RowStep& step, const Pass& pass, int64_t phase);
int64_t n_chunks(const MatMulStep& step, const Pass& pass, int64_t phase);
int64_t n_chunks(const AttentionStep& step, const Pass& pass, int64_t phase);
void run_chunk(const RowStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker);
void run_chunk(const MatMulStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker);
void run_chunk(const AttentionStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker);

}  // namespace tempo9::backends::cpu
