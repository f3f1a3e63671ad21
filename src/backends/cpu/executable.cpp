#include "backends/cpu/executable.h"

#include <algorithm>

#include "backends/cpu/pass.h"
#include "base/check.h"

namespace tempo9::backends::cpu {
namespace {

// For attention states of spans, touched only as far as a long context needs it. What does not fit is not split.
constexpr size_t kSpanStateBytes = size_t{256} << 20;
constexpr size_t kAlignment = 64;

size_t align(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Floats of the largest attention state that one unit of work needs.
int64_t unit_state_floats(const Plan& plan) {
  int64_t floats = 0;
  for (const Step& step : plan.steps) {
    if (const auto* attention = std::get_if<AttentionStep>(&step.work)) {
      const kernels::AttentionShape& shape = attention->shape;
      floats =
          std::max(floats, attention_state_floats(kAttentionRows * shape.n_heads / shape.n_kv_heads, shape.v_head_dim));
    }
  }
  return floats;
}

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const tensor::Program& program, const CompileOptions& options, const kernels::Isa& isa,
                ThreadPool& pool)
      : program_(program), options_(options), isa_(isa), pool_(pool) {
    max_rows_ = std::max(options.max_rows, options.max_outputs);
    row_blocks_.reserve(static_cast<size_t>(options.max_rows));
  }

  Result<void> prepare(std::span<const tensor::WeightView> weights) {
    T9_TRY(bound, bind_weights(program_, weights));
    weights_ = std::move(bound);
    T9_TRY(fused, make_plan(program_, weights_, isa_, {.n_workers = pool_.n_workers(), .fused = true}));
    T9_TRY(traced, make_plan(program_, weights_, isa_, {.n_workers = pool_.n_workers(), .fused = false}));
    fused_ = std::move(fused);
    traced_ = std::move(traced);
    return reserve_memory();
  }

  void run(const tensor::Batch& batch, const RunOutputs& outputs, const Observer* observer) override {
    T9_CHECK(batch.n_rows() <= options_.max_rows && batch.n_outputs() <= options_.max_outputs);
    if (batch.n_rows() == 0) return;
    split_rows(batch);
    const Plan& plan = observer == nullptr ? fused_ : traced_;
    const Pass pass{.plan = plan,
                    .isa = isa_,
                    .batch = batch,
                    .logits = outputs.logits,
                    .cells = cells_.data(),
                    .max_rows = max_rows_,
                    .workers = workers_,
                    .row_blocks = row_blocks_,
                    .span_states = span_state_floats()};
    pool_.run([&](ThreadPool::Worker& worker) {
      for (const Step& step : plan.steps) {
        std::visit([&](const auto& work) { run_step(work, pass, worker); }, step.work);
        if (observer != nullptr) show(step, pass, worker, *observer);
      }
    });
  }

 private:
  Result<void> reserve_memory() {
    const size_t bytes_per_row = std::max(fused_.bytes_per_row, traced_.bytes_per_row);
    const size_t cell_bytes = align(bytes_per_row);
    const size_t scratch_bytes = align(std::max(fused_.matmul_scratch_bytes, traced_.matmul_scratch_bytes));
    const size_t state_bytes = align(static_cast<size_t>(unit_state_floats(fused_)) * sizeof(float));
    const size_t worker_bytes = cell_bytes + scratch_bytes + 2 * state_bytes;
    T9_TRY(cells, Buffer::reserve(bytes_per_row * static_cast<size_t>(max_rows_)));
    T9_TRY(private_memory, Buffer::reserve(worker_bytes * static_cast<size_t>(pool_.n_workers())));
    T9_TRY(span_states, Buffer::reserve(kSpanStateBytes));
    cells_ = std::move(cells);
    private_memory_ = std::move(private_memory);
    span_states_ = std::move(span_states);
    for (int i = 0; i < pool_.n_workers(); ++i) {
      std::byte* base = private_memory_.data() + worker_bytes * static_cast<size_t>(i);
      std::byte* states = base + cell_bytes + scratch_bytes;
      workers_.push_back({.cells = base,
                          .scratch = base + cell_bytes,
                          .part = reinterpret_cast<float*>(states),
                          .total = reinterpret_cast<float*>(states + state_bytes)});
    }
    return {};
  }

  std::span<float> span_state_floats() {
    return {reinterpret_cast<float*>(span_states_.data()), span_states_.size() / sizeof(float)};
  }

  // Runs of rows of one sequence, cut to blocks.
  void split_rows(const tensor::Batch& batch) {
    row_blocks_.clear();
    for (int64_t r = 0; r < batch.n_rows(); ++r) {
      const bool continues = !row_blocks_.empty() && row_blocks_.back().rows < kAttentionRows &&
                             batch.sequences[static_cast<size_t>(r)] == batch.sequences[static_cast<size_t>(r - 1)];
      if (!continues) row_blocks_.push_back({.begin = r, .rows = 0});
      ++row_blocks_.back().rows;
    }
  }

  // On the caller's thread, while the others wait.
  void show(const Step& step, const Pass& pass, ThreadPool::Worker& worker, const Observer& observer) const {
    worker.barrier();
    if (worker.index() == 0) {
      for (const auto& [value, cell] : step.values) {
        observer(value, pass.view(cell, program_.values[static_cast<size_t>(value)].cols, 0));
      }
    }
    worker.barrier();
  }

  const tensor::Program program_;
  const CompileOptions options_;
  const kernels::Isa& isa_;
  ThreadPool& pool_;

  Weights weights_;
  Plan fused_;
  Plan traced_;  // for runs with an observer
  int64_t max_rows_ = 0;
  Buffer cells_;
  Buffer private_memory_;
  Buffer span_states_;
  std::vector<WorkerMemory> workers_;
  std::vector<RowBlock> row_blocks_;
};

}  // namespace

Result<std::unique_ptr<Executable>> make_executable(const tensor::Program& program,
                                                    std::span<const tensor::WeightView> weights,
                                                    const CompileOptions& options, const kernels::Isa& isa,
                                                    ThreadPool& pool) {
  auto executable = std::make_unique<CpuExecutable>(program, options, isa, pool);
  T9_TRY_VOID(executable->prepare(weights));
  return executable;
}

}  // namespace tempo9::backends::cpu
