#include "backends/cpu/executable.h"

#include <algorithm>

#include "backends/cpu/pass.h"
#include "backends/cpu/trial_rows.h"
#include "base/check.h"
#include "base/thread_pool.h"

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

// Some steps of a plan as the pool takes them: kPhases stages each.
class StepsOfPass final : public StagedWork {
 public:
  StepsOfPass(const Pass& pass, std::span<const Step> steps) : pass_(pass), steps_(steps) {}

  int64_t n_stages() const override { return std::ssize(steps_) * kPhases; }
  int64_t n_chunks(int64_t stage) const override {
    return std::visit([&](const auto& work) { return cpu::n_chunks(work, pass_, stage % kPhases); }, step(stage).work);
  }
  void run_chunk(int64_t stage, int64_t chunk, int worker) const override {
    std::visit([&](const auto& work) { cpu::run_chunk(work, pass_, stage % kPhases, chunk, worker); },
               step(stage).work);
  }

 private:
  const Step& step(int64_t stage) const { return steps_[static_cast<size_t>(stage / kPhases)]; }

  const Pass& pass_;
  std::span<const Step> steps_;
};

// Units of attention in one part of a pass: some milliseconds where the context is long.
constexpr int64_t kPartUnits = 2;  // per worker

// Chunks [first, first + n) of a stage of a step; of all its stages when n is 0.
struct Part {
  int64_t step = 0;
  int64_t phase = 0;
  int64_t first = 0;
  int64_t n = 0;
};

class ChunksOfStage final : public StagedWork {
 public:
  ChunksOfStage(const Pass& pass, const Step& step, const Part& part) : pass_(pass), step_(step), part_(part) {}

  int64_t n_stages() const override { return 1; }
  int64_t n_chunks(int64_t) const override { return part_.n; }
  void run_chunk(int64_t, int64_t chunk, int worker) const override {
    std::visit([&](const auto& work) { cpu::run_chunk(work, pass_, part_.phase, part_.first + chunk, worker); },
               step_.work);
  }

 private:
  const Pass& pass_;
  const Step& step_;
  const Part& part_;
};

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const tensor::Program& program, const CompileOptions& options, const kernels::Isa& isa,
                ThreadPool& pool, TiledWeights* tiles)
      : program_(program), options_(options), isa_(isa), pool_(pool), tiles_(tiles) {
    row_blocks_.reserve(static_cast<size_t>(options.max_rows));
    sequence_rows_.reserve(static_cast<size_t>(options.max_rows));
    window_groups_.reserve(static_cast<size_t>(options.max_rows));
  }
  ~CpuExecutable() override {
    for (const tensor::WeightView& weight : requested_) tiles_->release(weight);
  }

  Result<void> prepare(std::span<const tensor::WeightView> weights) {
    T9_TRY(bound, bind_weights(program_, weights));
    weights_ = std::move(bound);
    T9_TRY(fused, make_plan(program_, weights_, isa_, {.n_workers = pool_.n_workers(), .fused = true}));
    T9_TRY(traced, make_plan(program_, weights_, isa_, {.n_workers = pool_.n_workers(), .fused = false}));
    fused_ = std::move(fused);
    traced_ = std::move(traced);
    T9_TRY_VOID(reserve_memory());
    if (tiles_ != nullptr) request_tiles();
    return {};
  }

  void run(const tensor::Batch& batch, const RunOutputs& outputs, const Observer* observer) override {
    if (batch.n_rows() == 0) return;
    const Plan& plan = observer == nullptr ? fused_ : traced_;
    begin(batch);
    const Pass pass = view_pass(plan, batch, outputs);
    if (observer == nullptr) {
      pool_.run(StepsOfPass(pass, plan.steps));
      return;
    }
    for (const Step& step : plan.steps) {
      pool_.run(StepsOfPass(pass, {&step, 1}));
      for (const auto& [value, cell] : step.values) {
        (*observer)(value, pass.view(cell, program_.values[static_cast<size_t>(value)].cols));
      }
    }
  }

  // A part is a step, or some units of attention: what a step takes of these grows with the context.
  int64_t begin_parts(const tensor::Batch& batch) override {
    begin(batch);
    const Pass pass = view_pass(fused_, batch, {});
    parts_.clear();
    for (int64_t i = 0; i < std::ssize(fused_.steps); ++i) {
      if (const auto* attention = std::get_if<AttentionStep>(&fused_.steps[static_cast<size_t>(i)].work)) {
        for (int64_t phase = 0; phase < kPhases; ++phase) add_parts(i, phase, n_chunks(*attention, pass, phase));
      } else {
        parts_.push_back({.step = i});
      }
    }
    return std::ssize(parts_);
  }
  void run_part(const tensor::Batch& batch, const RunOutputs& outputs, int64_t index) override {
    const Pass pass = view_pass(fused_, batch, outputs);
    const Part& part = parts_[static_cast<size_t>(index)];
    const Step& step = fused_.steps[static_cast<size_t>(part.step)];
    if (part.n > 0) {
      pool_.run(ChunksOfStage(pass, step, part));
    } else {
      pool_.run(StepsOfPass(pass, {&step, 1}));
    }
  }

  void replay(const tensor::StateView& states, std::span<const int64_t> n_rows) override {
    trial_.replay(states, n_rows, isa_, pool_, workers_);
  }

  double waited_s() const override { return pool_.waited_s(); }

 private:
  // What all parts of a pass share.
  void begin(const tensor::Batch& batch) {
    T9_CHECK(batch.n_rows() <= options_.max_rows && batch.n_outputs() <= batch.n_rows());
    T9_CHECK(batch.n_outputs() <= options_.max_outputs);
    if (tiles_ != nullptr && tiles_->n_made() != n_made_) use_tiles();
    split_rows(batch);
    trial_.begin(batch, sequence_rows_);
  }
  Pass view_pass(const Plan& plan, const tensor::Batch& batch, const RunOutputs& outputs) {
    return {.plan = plan,
            .isa = isa_,
            .batch = batch,
            .outputs = outputs,
            .cells = cells_.data(),
            .workers = workers_,
            .sequence_rows = sequence_rows_,
            .row_blocks = row_blocks_,
            .attention_groups = attention_groups_,
            .window_groups = window_groups_,
            .span_states = span_state_floats(),
            .trial = trial_};
  }

  void add_parts(int64_t step, int64_t phase, int64_t n_chunks) {
    const int64_t n = kPartUnits * pool_.n_workers();
    for (int64_t first = 0; first < n_chunks; first += n) {
      parts_.push_back({.step = step, .phase = phase, .first = first, .n = std::min(n, n_chunks - first)});
    }
  }

  void request_tiles() {
    for (const tensor::WeightId id : product_weights(program_)) {
      requested_.push_back(weights_.views[static_cast<size_t>(id)]);
      tiles_->request(requested_.back());
    }
    in_place_ = requested_;
  }

  // Exchanges the weights whose copies have been made since the last look.
  void use_tiles() {
    n_made_ = tiles_->n_made();
    std::erase_if(in_place_, [this](const tensor::WeightView& weight) {
      const auto copy = tiles_->find(weight);
      if (!copy) return false;
      exchange_weight(fused_, weight, *copy);
      exchange_weight(traced_, weight, *copy);
      return true;
    });
  }

  Result<void> reserve_memory() {
    const size_t bytes_per_row = std::max(fused_.bytes_per_row, traced_.bytes_per_row);
    const size_t scratch_bytes = align(std::max(fused_.scratch_bytes, traced_.scratch_bytes));
    const size_t state_bytes = align(static_cast<size_t>(unit_state_floats(fused_)) * sizeof(float));
    const size_t worker_bytes = scratch_bytes + 2 * state_bytes;
    T9_TRY(cells, Buffer::reserve(bytes_per_row * static_cast<size_t>(options_.max_rows)));
    T9_TRY(private_memory, Buffer::reserve(worker_bytes * static_cast<size_t>(pool_.n_workers())));
    T9_TRY(span_states, Buffer::reserve(kSpanStateBytes));
    T9_TRY(trial, TrialRows::create(fused_, program_.state_layers.size(), options_.max_trial_rows));
    trial_ = std::move(trial);
    cells_ = std::move(cells);
    private_memory_ = std::move(private_memory);
    span_states_ = std::move(span_states);
    for (int i = 0; i < pool_.n_workers(); ++i) {
      std::byte* base = private_memory_.data() + worker_bytes * static_cast<size_t>(i);
      std::byte* states = base + scratch_bytes;
      workers_.push_back({.scratch = base,
                          .part = reinterpret_cast<float*>(states),
                          .total = reinterpret_cast<float*>(states + state_bytes)});
    }
    return {};
  }

  std::span<float> span_state_floats() {
    return {reinterpret_cast<float*>(span_states_.data()), span_states_.size() / sizeof(float)};
  }

  void split_rows(const tensor::Batch& batch) {
    sequence_rows_.clear();
    row_blocks_.clear();
    for (int64_t begin = 0; begin < batch.n_rows();) {
      const auto first = batch.sequences.begin() + begin;
      const auto other =
          std::find_if(first, batch.sequences.end(), [&](int32_t sequence) { return sequence != *first; });
      const int64_t n = other - first;
      sequence_rows_.push_back({.begin = begin, .rows = n});
      for (int64_t i = 0; i < n; i += kAttentionRows) {
        row_blocks_.push_back({.begin = begin + i, .rows = std::min(kAttentionRows, n - i)});
      }
      begin += n;
    }
    blocks_alone(row_blocks_, window_groups_);
    const size_t n_pools = batch.kv.tables.size() / static_cast<size_t>(std::max(1, batch.kv.n_sequences));
    attention_groups_.resize(n_pools);
    for (size_t pool = 0; pool < n_pools; ++pool) {
      group_blocks(batch, static_cast<int32_t>(pool), row_blocks_, attention_groups_[pool]);
    }
  }

  const tensor::Program program_;
  const CompileOptions options_;
  const kernels::Isa& isa_;
  ThreadPool& pool_;
  TiledWeights* const tiles_;  // may be null

  std::vector<tensor::WeightView> requested_;
  std::vector<tensor::WeightView> in_place_;  // of these, those that are not exchanged yet
  int64_t n_made_ = 0;                        // of all copies, at the last look
  Weights weights_;
  Plan fused_;
  Plan traced_;  // for runs with an observer
  Buffer cells_;
  Buffer private_memory_;
  Buffer span_states_;
  std::vector<WorkerMemory> workers_;
  std::vector<RowBlock> sequence_rows_;
  std::vector<RowBlock> row_blocks_;
  std::vector<std::vector<AttentionGroup>> attention_groups_;
  std::vector<AttentionGroup> window_groups_;
  TrialRows trial_;
  std::vector<Part> parts_;  // of the pass that is run in parts
};

}  // namespace

Result<std::unique_ptr<Executable>> make_executable(const tensor::Program& program,
                                                    std::span<const tensor::WeightView> weights,
                                                    const CompileOptions& options, const kernels::Isa& isa,
                                                    ThreadPool& pool, TiledWeights* tiles) {
  auto executable = std::make_unique<CpuExecutable>(program, options, isa, pool, tiles);
  T9_TRY_VOID(executable->prepare(weights));
  return executable;
}

}  // namespace tempo9::backends::cpu
