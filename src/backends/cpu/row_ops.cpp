// Operations on one row, with the cells they read and make.
#include <algorithm>

#include "backends/cpu/planner.h"
#include "base/check.h"

namespace tempo9::backends::cpu {

using tensor::kNone;
using tensor::RowSet;

RowStep& Planner::row_step(RowSet rows) {
  RowStep* last = plan_.steps.empty() ? nullptr : std::get_if<RowStep>(&plan_.steps.back().work);
  if (last != nullptr && last->rows == rows && options_.fused) return *last;
  return std::get<RowStep>(plan_.steps.emplace_back(RowStep{.rows = rows, .ops = {}}).work);
}

Result<void> Planner::emit_row_op(size_t index) {
  done_[index] = true;
  RowStep& step = row_step(row_set(index));
  T9_TRY(op, std::visit([this](const auto& source) { return bind(source); }, program_.ops[index]));
  step.ops.push_back(std::move(op));
  if (const auto* write = std::get_if<tensor::KvWrite>(&program_.ops[index])) {
    pending_writes_.erase(std::ranges::find(pending_writes_, write->kv_layer));
  }
  return {};
}

Result<RowOp> Planner::bind(const tensor::Embed& op) {
  const tensor::WeightView& table = weight(op.table);
  const quant::QuantType* type = quant::find_type(table.dtype);
  if (type == nullptr) return unreadable(op.table);
  plan_.scratch_bytes = std::max(plan_.scratch_bytes, table.row_bytes);  // a row out of tiles
  return EmbedOp{.table = table, .decode = type->decode, .scale = op.scale, .out = make(op.out)};
}
Result<RowOp> Planner::bind(const tensor::RmsNorm& op) {
  const int64_t cols = value(op.out).cols;
  return NormOp{.x = use(op.x),
                .weight = vector(op.weight),
                .out = make(op.out),
                .cols = cols,
                .group = op.group > 0 ? op.group : cols,
                .eps = op.eps};
}
Result<RowOp> Planner::bind(const tensor::Add& op) {
  return AddOp{.a = use(op.a), .b = use(op.b), .out = make(op.out), .cols = value(op.out).cols};
}
Result<RowOp> Planner::bind(const tensor::Rope& op) {
  const CellId angles = angle_cell(op);
  return RotateOp{.x = use(op.x),
                  .angles = angles,
                  .out = make(op.out),
                  .n_heads = value(op.out).cols / op.head_dim,
                  .head_dim = op.head_dim,
                  .n_rot = op.n_rot,
                  .pairs = op.pairs};
}
Result<RowOp> Planner::bind(const tensor::KvWrite& op) {
  const tensor::KvLayerSpec& layer = program_.kv_layers[static_cast<size_t>(op.kv_layer)];
  return KvStoreOp{.k = use(op.k),
                   .v = use(op.v),
                   .kv_layer = op.kv_layer,
                   .shape = {.n_heads = layer.n_kv_heads,
                             .n_kv_heads = layer.n_kv_heads,
                             .k_head_dim = layer.k_head_dim,
                             .v_head_dim = layer.v_head_dim}};
}
Result<RowOp> Planner::bind(const tensor::GatedActivation& op) {
  return GatedOp{.activation = op.activation,
                 .gate = use(op.gate),
                 .up = use(op.up),
                 .out = make(op.out),
                 .cols = value(op.out).cols};
}
Result<RowOp> Planner::bind(const tensor::SelectOutputs& op) {
  return SelectOp{.x = use(op.x), .out = make(op.out), .cols = value(op.out).cols};
}
Result<RowOp> Planner::bind(const tensor::SoftCap& op) {
  return CapOp{.x = use(op.x), .out = make(op.out), .cols = value(op.out).cols, .cap = op.cap};
}
Result<RowOp> Planner::bind(const tensor::Scale& op) {
  const float by = op.by == kNone ? 1.0f : *vector(op.by);
  return ScaleOp{.x = use(op.x), .out = make(op.out), .cols = value(op.out).cols, .factor = op.factor * by};
}
Result<RowOp> Planner::bind(const tensor::TakeColumns& op) {
  return TakeOp{.x = use(op.x),
                .out = make(op.out),
                .n_groups = value(op.out).cols / op.count,
                .group = op.group,
                .begin = op.begin,
                .count = op.count};
}
Result<RowOp> Planner::bind(const tensor::Concat& op) {
  return ConcatOp{
      .a = use(op.a), .b = use(op.b), .out = make(op.out), .a_cols = value(op.a).cols, .b_cols = value(op.b).cols};
}
Result<RowOp> Planner::bind(const tensor::GateRows& op) {
  return GateRowOp{.gate = use(op.gate), .x = use(op.x), .out = make(op.out), .cols = value(op.out).cols};
}
Result<RowOp> Planner::bind(const tensor::PositionScale& op) {
  return PositionScaleOp{
      .x = use(op.x), .out = make(op.out), .cols = value(op.out).cols, .beta = op.beta, .period = op.period};
}
Result<RowOp> Planner::bind(const tensor::Input& op) {
  return InputOp{.out = make(op.out), .cols = value(op.out).cols};
}
Result<RowOp> Planner::bind(const tensor::AddEmbedding& op) {
  return AddEmbeddingOp{.x = use(op.x), .out = make(op.out), .cols = value(op.out).cols, .begin = op.begin};
}

// The angles of a row are worked out once per pass, in the first step, for all layers that turn alike.
CellId Planner::angle_cell(const tensor::Rope& op) {
  const auto [entry, is_new] = angle_cells_.try_emplace({op.frequencies, op.axes, op.magnitude}, -1);
  if (is_new) {
    const std::vector<float>& frequencies = program_.rope_frequencies[static_cast<size_t>(op.frequencies)];
    entry->second = new_cell(RowSet::kBatch, 2 * frequencies.size() * sizeof(float));
    uses_.back().first = 0;
    auto* first = std::get_if<RowStep>(&plan_.steps.front().work);
    T9_CHECK_MSG(first != nullptr && first->rows == RowSet::kBatch, "a program starts with a row operation");
    first->ops.push_back(
        AnglesOp{.frequencies = frequencies.data(),
                 .axes = op.axes == kNone ? nullptr : program_.rope_axes[static_cast<size_t>(op.axes)].data(),
                 .n_pairs = std::ssize(frequencies),
                 .magnitude = op.magnitude,
                 .out = entry->second});
  }
  return use_cell(entry->second);
}

}  // namespace tempo9::backends::cpu
