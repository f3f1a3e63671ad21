#include "backends/cpu/trial_rows.h"

#include <algorithm>

#include "backends/cpu/chunk_sizes.h"
#include "base/check.h"

namespace tempo9::backends::cpu {
namespace {

// Columns of the convolution's state that one chunk of a replay shifts: a copy, so larger than a pass's chunks.
constexpr int64_t kShiftCols = 4096;

void copy_columns(const float* from, int64_t from_stride, tensor::IndexRange cols, int64_t n_rows, float* to,
                  int64_t to_stride) {
  for (int64_t r = 0; r < n_rows; ++r) {
    std::copy(from + r * from_stride + cols.begin, from + r * from_stride + cols.end, to + r * to_stride + cols.begin);
  }
}

}  // namespace

Result<TrialRows> TrialRows::create(const Plan& plan, size_t n_layers, int64_t max_rows) {
  TrialRows trial;
  if (max_rows == 0 || n_layers == 0) return trial;
  trial.max_rows_ = max_rows;
  trial.layers_.resize(n_layers);
  for (const Step& step : plan.steps) {
    if (const auto* conv = std::get_if<ConvStep>(&step.work)) {
      trial.layers_[static_cast<size_t>(conv->state_layer)].conv = *conv;
    } else if (const auto* net = std::get_if<DeltaNetStep>(&step.work)) {
      trial.layers_[static_cast<size_t>(net->state_layer)].net = *net;
    }
  }
  size_t n_floats = 0;
  for (Layer& layer : trial.layers_) {
    layer.offset = n_floats;
    n_floats += static_cast<size_t>(layer.row_floats() * max_rows);
  }
  T9_TRY(memory, Buffer::reserve(n_floats * sizeof(float)));
  trial.memory_ = std::move(memory);
  trial.kept_ = reinterpret_cast<float*>(trial.memory_.data());
  return trial;
}

void TrialRows::begin(const tensor::Batch& batch, std::span<const RowBlock> sequence_rows) {
  trials_.clear();
  int64_t n_rows = 0;
  for (const RowBlock& rows : sequence_rows) {
    const int32_t sequence = batch.sequences[static_cast<size_t>(rows.begin)];
    const bool is_on_trial = batch.states.is_on_trial(sequence);
    trials_.push_back({.sequence = sequence, .first = n_rows, .n_rows = is_on_trial ? rows.rows : 0});
    n_rows += trials_.back().n_rows;
  }
  T9_CHECK(n_rows <= max_rows_);
}

void TrialRows::carry_over(const ConvStep& step, const Pass& pass, int64_t index, tensor::IndexRange cols) const {
  const int32_t sequence = trials_[static_cast<size_t>(index)].sequence;
  copy_columns(pass.batch.states.state_before(step.state_layer, sequence), step.cols, cols, step.kernel - 1,
               pass.batch.states.state(step.state_layer, sequence), step.cols);
}

void TrialRows::carry_over(const DeltaNetStep& step, const Pass& pass, int64_t index, int64_t head) const {
  const int32_t sequence = trials_[static_cast<size_t>(index)].sequence;
  const int64_t size = step.shape.k_dim * step.shape.v_dim;
  const int64_t offset = step.state_offset + head * size;
  std::copy_n(pass.batch.states.state_before(step.state_layer, sequence) + offset, size,
              pass.batch.states.state(step.state_layer, sequence) + offset);
}

void TrialRows::keep(const ConvStep& step, const Pass& pass, int64_t index, tensor::IndexRange cols) const {
  const Layer& layer = layers_[static_cast<size_t>(step.state_layer)];
  const Trial& trial = trials_[static_cast<size_t>(index)];
  const int64_t first = pass.sequence_rows[static_cast<size_t>(index)].begin;
  float* kept = rows_of(layer, trial);
  const auto keep_cell = [&](CellId cell, float* to) {
    const auto view = pass.view(cell, step.cols);
    copy_columns(view.row(first), view.stride, cols, trial.n_rows, to, layer.row_floats());
  };
  keep_cell(step.x, kept);
  keep_cell(step.out, kept + step.cols);
}

void TrialRows::keep(const DeltaNetStep& step, const Pass& pass, int64_t index, int64_t head) const {
  const Layer& layer = layers_[static_cast<size_t>(step.state_layer)];
  const Trial& trial = trials_[static_cast<size_t>(index)];
  const int64_t first = pass.sequence_rows[static_cast<size_t>(index)].begin;
  float* kept = rows_of(layer, trial) + 2 * layer.conv.cols + head;
  for (int64_t r = 0; r < trial.n_rows; ++r, kept += layer.row_floats()) {
    kept[0] = pass.row(step.beta, first + r)[head];
    kept[step.shape.n_v_heads] = pass.row(step.alpha, first + r)[head];
  }
}

// All layers of all sequences at once: they do not see each other. Of a layer first the parts of the convolution's
// state, then the heads.
class TrialRows::Replay final : public StagedWork {
 public:
  Replay(const TrialRows& trial, const tensor::StateView& states, std::span<const int64_t> n_rows,
         const kernels::Isa& isa, std::span<const WorkerMemory> workers)
      : trial_(trial), states_(states), isa_(isa), workers_(workers) {
    for (const Trial& t : trial.trials_) {
      const int64_t n = n_rows[static_cast<size_t>(t.sequence)];
      T9_CHECK(n <= t.n_rows || t.n_rows == 0);
      if (n > 0 && t.n_rows > 0) parts_.push_back({.sequence = t.sequence, .first = t.first, .n_rows = n});
    }
    for (size_t l = 0; l < trial.layers_.size(); ++l) {
      const int64_t n_units = n_shifts(trial.layers_[l]) + trial.layers_[l].net.shape.n_v_heads;
      for (int64_t i = 0; i < n_units; ++i) units_.emplace_back(l, i);
    }
  }

  int64_t n_stages() const override { return 1; }
  int64_t n_chunks(int64_t) const override { return std::ssize(parts_) * std::ssize(units_); }
  void run_chunk(int64_t, int64_t chunk, int worker) const override {
    const Trial& part = parts_[static_cast<size_t>(chunk / std::ssize(units_))];
    const auto [index, unit] = units_[static_cast<size_t>(chunk % std::ssize(units_))];
    const Layer& layer = trial_.layers_[index];
    if (unit < n_shifts(layer)) {
      const int64_t begin = unit * kShiftCols;
      shift(layer, part, {begin, std::min(layer.conv.cols, begin + kShiftCols)});
    } else {
      advance(layer, part, unit - n_shifts(layer), workers_[static_cast<size_t>(worker)]);
    }
  }

 private:
  static int64_t n_shifts(const Layer& layer) { return n_parts(layer.conv.cols, kShiftCols); }

  // The convolution's state becomes the last rows of itself continued by x. Ascending: a row is read before it is
  // written over.
  void shift(const Layer& layer, const Trial& part, tensor::IndexRange cols) const {
    const int64_t n_past = layer.conv.kernel - 1;
    float* state = states_.state(layer.conv.state_layer, part.sequence);
    const float* x = trial_.rows_of(layer, part);
    for (int64_t i = 0; i < n_past; ++i) {
      const int64_t from = i + part.n_rows;
      const float* row = from < n_past ? state + from * layer.conv.cols : x + (from - n_past) * layer.row_floats();
      std::copy(row + cols.begin, row + cols.end, state + i * layer.conv.cols + cols.begin);
    }
  }

  void advance(const Layer& layer, const Trial& part, int64_t head, const WorkerMemory& worker) const {
    const DeltaNetStep& net = layer.net;
    float* kept = trial_.rows_of(layer, part);
    const auto view = [&](int64_t begin, int64_t cols) {
      return tensor::MatView<const float>{kept + begin, part.n_rows, cols, layer.row_floats()};
    };
    const int64_t gates = 2 * layer.conv.cols;
    const int64_t v_cols = net.shape.n_v_heads * net.shape.v_dim;
    float* scratch = reinterpret_cast<float*>(worker.scratch);
    // The results are of no use: all rows write to one.
    float* unused = scratch + kernels::delta_net_scratch(net.shape);
    isa_.recurrent->delta_net(
        net.shape,
        {.qkv = view(layer.conv.cols, layer.conv.cols),
         .beta = view(gates, net.shape.n_v_heads),
         .alpha = view(gates + net.shape.n_v_heads, net.shape.n_v_heads),
         .out = {unused, part.n_rows, v_cols, 0}},
        head, net.a[head], net.dt[head],
        states_.state(net.state_layer, part.sequence) + net.state_offset + head * net.shape.k_dim * net.shape.v_dim,
        scratch);
  }

  const TrialRows& trial_;
  const tensor::StateView& states_;
  const kernels::Isa& isa_;
  std::span<const WorkerMemory> workers_;
  std::vector<Trial> parts_;
  std::vector<std::pair<size_t, int64_t>> units_;  // layer, and which of its parts or heads
};

void TrialRows::replay(const tensor::StateView& states, std::span<const int64_t> n_rows, const kernels::Isa& isa,
                       ThreadPool& pool, std::span<const WorkerMemory> workers) const {
  pool.run(Replay(*this, states, n_rows, isa, workers));
}

}  // namespace tempo9::backends::cpu
