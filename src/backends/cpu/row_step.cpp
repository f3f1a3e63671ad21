// Row steps: every operation of the step on one row after another.
#include <algorithm>

#include "backends/cpu/pass.h"
#include "kernels/tiles.h"

namespace tempo9::backends::cpu {
namespace {

// One operation on one row.
class RowRunner {
 public:
  RowRunner(const Pass& pass, int64_t row, std::byte* scratch)
      : pass_(pass), rows_(*pass.isa.rows), r_(row), scratch_(scratch) {}

  // Pairs that turn by the same plane of positions are done together. Text has one plane, which stands for all.
  void operator()(const AnglesOp& op) const {
    float* cosines = at(op.out);
    float* sines = cosines + op.n_pairs;
    const bool has_planes = op.axes != nullptr && std::ssize(pass_.batch.positions) > pass_.batch.n_rows();
    for (int64_t i = 0; i < op.n_pairs;) {
      int64_t end = op.n_pairs;
      if (has_planes) end = std::find_if(op.axes + i, op.axes + end, [&](auto a) { return a != op.axes[i]; }) - op.axes;
      const int64_t plane = has_planes ? op.axes[i] : 0;
      const int32_t position = pass_.batch.positions[static_cast<size_t>(plane * pass_.batch.n_rows() + r_)];
      rows_.rope_angles(position, op.frequencies + i, end - i, op.magnitude, cosines + i, sines + i);
      i = end;
    }
  }
  void operator()(const EmbedOp& op) const {
    float* out = at(op.out);
    if (const float* embedding = pass_.batch.embedding(r_)) {
      std::copy_n(embedding, op.table.cols, out);
      return;
    }
    const int32_t token = pass_.batch.tokens[static_cast<size_t>(r_)];
    if (op.table.layout == tensor::Layout::kTiled) {
      kernels::read_tiled_row(op.table, pass_.isa.matmul->tile_rows, token, scratch_);
      op.decode(scratch_, out, op.table.cols);
    } else {
      op.decode(op.table.row(token), out, op.table.cols);
    }
    if (op.scale != 1.0f) rows_.scale(out, op.scale, out, op.table.cols);
  }
  void operator()(const NormOp& op) const {
    rows_.rms_norm(at(op.x), op.weight, at(op.out), op.cols, op.group, op.eps);
  }
  void operator()(const AddOp& op) const { rows_.add(at(op.a), at(op.b), at(op.out), op.cols); }
  void operator()(const RotateOp& op) const {
    const float* cosines = at(op.angles);
    rows_.rope(at(op.x), at(op.out), op.n_heads, op.head_dim, op.n_rot, op.pairs, cosines, cosines + op.n_rot / 2);
  }
  void operator()(const KvStoreOp& op) const {
    const tensor::KvLayerView& layer = pass_.batch.kv.layers[static_cast<size_t>(op.kv_layer)];
    const int32_t slot = pass_.batch.slots[static_cast<size_t>(r_)];
    const int32_t sequence = pass_.batch.sequences[static_cast<size_t>(r_)];
    const int32_t page =
        pass_.batch.kv.table(layer.pool, sequence).pages[static_cast<size_t>(slot / tensor::kPageTokens)];
    pass_.isa.attention(layer.type)
        .write(op.shape, at(op.k), at(op.v), layer.k + static_cast<size_t>(page) * layer.k_page_bytes,
               layer.v + static_cast<size_t>(page) * layer.v_page_bytes, slot % tensor::kPageTokens);
  }
  void operator()(const GatedOp& op) const { rows_.gated(op.activation, at(op.gate), at(op.up), at(op.out), op.cols); }
  void operator()(const SelectOp& op) const {
    const int64_t from = pass_.batch.outputs[static_cast<size_t>(r_)];
    std::copy_n(pass_.row(op.x, from), op.cols, at(op.out));
  }
  void operator()(const CapOp& op) const { rows_.soft_cap(at(op.x), at(op.out), op.cap, op.cols); }
  void operator()(const ScaleOp& op) const { rows_.scale(at(op.x), op.factor, at(op.out), op.cols); }
  void operator()(const TakeOp& op) const {
    const float* from = at(op.x) + op.begin;
    float* to = at(op.out);
    for (int64_t i = 0; i < op.n_groups; ++i) std::copy_n(from + i * op.group, op.count, to + i * op.count);
  }
  void operator()(const ConcatOp& op) const {
    std::copy_n(at(op.a), op.a_cols, at(op.out));
    std::copy_n(at(op.b), op.b_cols, at(op.out) + op.a_cols);
  }
  void operator()(const GateRowOp& op) const { rows_.gate_row(*at(op.gate), at(op.x), at(op.out), op.cols); }
  void operator()(const PositionScaleOp& op) const {
    const int32_t position = pass_.batch.positions[static_cast<size_t>(r_)];
    rows_.position_scale(at(op.x), position, op.beta, op.period, at(op.out), op.cols);
  }
  void operator()(const InputOp& op) const { std::copy_n(pass_.batch.hidden.row(r_), op.cols, at(op.out)); }
  void operator()(const AddEmbeddingOp& op) const {
    if (const float* embedding = pass_.batch.embedding(r_)) {
      rows_.add(at(op.x), embedding + op.begin, at(op.out), op.cols);
    } else {
      std::copy_n(at(op.x), op.cols, at(op.out));
    }
  }
  void operator()(const ChooseOp& op) const {
    const ExpertChoices chosen = expert_choices(at(op.out), op.n_used);
    rows_.choose_experts(at(op.router), op.n_experts, op.n_used, chosen.experts, chosen.weights);
    for (int64_t i = 0; i < op.n_used; ++i) {
      chosen.weights[i] *= op.weight_scale;
      if (op.expert_scale != nullptr) chosen.weights[i] *= op.expert_scale[chosen.experts[i]];
    }
  }
  void operator()(const CombineOp& op) const {
    const ExpertChoices chosen = expert_choices(at(op.choices), op.n_used);
    const auto* results = reinterpret_cast<const float*>(pass_.data(op.results));
    rows_.weighted_sum(chosen.weights, chosen.places, op.n_used, {results, 0, op.cols, op.cols}, at(op.out));
  }
  void operator()(const QuantizeOp& op) const {
    pass_.isa.matmul->quantize(pass_.view(op.x, op.cols), {r_, r_ + 1}, pass_.quantized(op.out, op.format, op.cols));
  }

 private:
  float* at(CellId cell) const { return pass_.row(cell, r_); }

  const Pass& pass_;
  const kernels::RowKernels& rows_;
  const int64_t r_;
  std::byte* const scratch_;
};

// A few chunks per worker, so that a late one takes fewer.
int64_t chunk_rows(int64_t n_rows, const Pass& pass) { return std::max<int64_t>(1, n_rows / (pass.n_workers() * 4)); }

}  // namespace

int64_t n_chunks(const RowStep& step, const Pass& pass, int64_t phase) {
  const int64_t n_rows = phase == 0 ? pass.n_rows(step.rows) : 0;
  const int64_t per_chunk = chunk_rows(n_rows, pass);
  return (n_rows + per_chunk - 1) / per_chunk;
}

void run_chunk(const RowStep& step, const Pass& pass, int64_t, int64_t chunk, int worker) {
  const int64_t n_rows = pass.n_rows(step.rows);
  const int64_t per_chunk = chunk_rows(n_rows, pass);
  for (int64_t r = chunk * per_chunk; r < std::min(n_rows, (chunk + 1) * per_chunk); ++r) {
    const RowRunner runner(pass, r, pass.workers[static_cast<size_t>(worker)].scratch);
    for (const RowOp& op : step.ops) std::visit(runner, op);
  }
}

}  // namespace tempo9::backends::cpu
