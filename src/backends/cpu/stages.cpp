// Operations that are steps of their own.
#include <algorithm>

#include "backends/cpu/chunk_sizes.h"
#include "backends/cpu/pass.h"
#include "backends/cpu/planner.h"

namespace tempo9::backends::cpu {

using kernels::ActFormat;
using tensor::kNone;
using tensor::RowSet;

namespace {

// Pairs of one expert that are multiplied together: enough to make unpacking its weights cheap, few enough that a chunk
// of gate and up stays in L2 until the activation joins them.
constexpr int64_t kExpertTileRows = 128;

int64_t block_of(ActFormat format) {
  return format == ActFormat::kF32 ? 1 : kernels::QuantizedRows{.format = format}.block();
}

}  // namespace

Result<void> Planner::emit_stages(size_t index) {
  done_[index] = true;
  return std::visit([this](const auto& op) { return emit(op); }, program_.ops[index]);
}

Result<void> Planner::emit(const tensor::Attention& op) {
  const tensor::KvLayerSpec& layer = program_.kv_layers[static_cast<size_t>(op.kv_layer)];
  Step& step = plan_.steps.emplace_back(AttentionStep{});
  auto& attention = std::get<AttentionStep>(step.work);
  attention = {.q = use(op.q),
               .out = make(op.out),
               .kv_layer = op.kv_layer,
               .shape = {.n_heads = op.n_heads,
                         .n_kv_heads = layer.n_kv_heads,
                         .k_head_dim = layer.k_head_dim,
                         .v_head_dim = layer.v_head_dim,
                         .scale = op.scale,
                         .softcap = op.softcap,
                         .window = op.window},
               .sinks = vector(op.sinks)};
  plan_.scratch_bytes =
      std::max(plan_.scratch_bytes,
               kernels::attention_scratch_bytes(attention.shape, kAttentionRows * op.n_heads / layer.n_kv_heads));
  return {};
}

Result<void> Planner::emit(const tensor::Experts& op) {
  T9_TRY(step, bind_experts(op));
  const RowSet rows = step.rows;
  const int64_t n_out = step.down.weight.rows;
  const bool is_quantized = step.down.format != ActFormat::kF32;
  // The choice joins the row operations before, the sum those after.
  RowStep& before = row_step(rows);
  const CellId router = use(op.router);
  step.choices = new_cell(rows, ExpertChoices::bytes(op.n_used));
  before.ops.push_back(ChooseOp{.router = router,
                                .out = step.choices,
                                .n_experts = step.n_experts,
                                .n_used = op.n_used,
                                .weight_scale = op.weight_scale,
                                .expert_scale = vector(op.expert_scale)});
  step.gate.x = act_cell(op.x, step.gate.format, rows);
  step.up.x = act_cell(op.x, step.up.format, rows);
  Step& stages = plan_.steps.emplace_back(RowStep{});
  use_cell(step.gate.x);
  use_cell(step.up.x);
  use_cell(step.choices);
  step.tiles = new_cell(rows, ExpertTiles::row_bytes(op.n_used));
  step.inner = new_cell(rows, is_quantized ? quantized_bytes(step.down.format, op.n_used, step.n_inner)
                                           : static_cast<size_t>(op.n_used * step.n_inner) * sizeof(float));
  step.results = new_cell(rows, static_cast<size_t>(op.n_used * n_out) * sizeof(float));
  stages.work = step;
  RowStep& after = row_step(rows);
  after.ops.push_back(CombineOp{.choices = use_cell(step.choices),
                                .results = use_cell(step.results),
                                .out = make(op.out),
                                .n_used = op.n_used,
                                .cols = n_out});
  return {};
}

Result<ExpertsStep> Planner::bind_experts(const tensor::Experts& op) {
  T9_TRY(gate, bind_weight(op.gate, op.gate_bias));
  T9_TRY(up, op.up == kNone ? bind_weight(op.gate, op.gate_bias) : bind_weight(op.up, op.up_bias));
  T9_TRY(down, bind_weight(op.down, op.down_bias));
  ExpertsStep step{.rows = value(op.out).rows,
                   .n_experts = gate.weight.depth,
                   .n_used = op.n_used,
                   .n_inner = down.weight.cols,
                   .activation = op.activation,
                   .gate = std::move(gate),
                   .up = std::move(up),
                   .down = std::move(down)};
  if (op.up == kNone) {
    step.up.weight.data = step.up.weight.row(step.n_inner);
    if (step.up.bias != nullptr) step.up.bias += step.n_inner;
  }
  const auto row_bytes = [](const Product& product) { return static_cast<int64_t>(product.weight.row_bytes); };
  const int64_t inner_bytes = op.n_used * step.n_inner * (row_bytes(step.gate) + row_bytes(step.up));
  const int64_t down_bytes = op.n_used * step.down.weight.rows * row_bytes(step.down);
  const int64_t block = block_of(step.down.format);
  const auto inner_panel = [&](int64_t panel) { return std::min(step.n_inner, round_up(panel, block)); };
  step.inner_panel_few = inner_panel(few_rows_panel(step.gate.weight, inner_bytes, options_.n_workers));
  step.inner_panel_many = inner_panel(kManyRowsPanel);
  step.down_panel_few = few_rows_panel(step.down.weight, down_bytes, options_.n_workers);
  step.down_panel_many = kManyRowsPanel;
  step.tile_rows = std::min(kExpertTileRows, row_block(step.gate.weight.cols, step.gate.format));

  // Panels of gate and up are weights of their own, perhaps of few rows.
  size_t scratch = 0;
  for (const Product* product : {&step.gate, &step.up, &step.down}) {
    tensor::WeightView panel = product->weight;
    scratch = std::max(scratch, isa_.matmul->scratch_bytes(panel));
    panel.rows = 1;
    scratch = std::max(scratch, isa_.matmul->scratch_bytes(panel));
  }
  scratch = std::max(scratch, static_cast<size_t>(step.n_experts) * sizeof(int32_t));  // to sort
  step.buffer_offset = (scratch + 63) / 64 * 64;
  const int64_t buffer = step.tile_rows * std::max(step.inner_panel_few, step.inner_panel_many);
  plan_.scratch_bytes =
      std::max(plan_.scratch_bytes, step.buffer_offset + 2 * static_cast<size_t>(buffer) * sizeof(float));
  return step;
}

Result<void> Planner::emit(const tensor::CausalConv& op) {
  const tensor::WeightView& taps = weight(op.weight);
  Step& step = plan_.steps.emplace_back(RowStep{});
  step.work = ConvStep{.x = use(op.x),
                       .out = make(op.out),
                       .taps = vector(op.weight),
                       .kernel = taps.cols,
                       .cols = taps.rows,
                       .state_layer = op.state_layer};
  return {};
}

Result<void> Planner::emit(const tensor::DeltaNet& op) {
  const kernels::DeltaNetShape shape{
      .n_k_heads = op.n_k_heads, .n_v_heads = op.n_v_heads, .k_dim = op.k_dim, .v_dim = op.v_dim};
  Step& step = plan_.steps.emplace_back(RowStep{});
  step.work = DeltaNetStep{.qkv = use(op.qkv),
                           .beta = use(op.beta),
                           .alpha = use(op.alpha),
                           .out = make(op.out),
                           .a = vector(op.a),
                           .dt = vector(op.dt),
                           .shape = shape,
                           .state_layer = op.state_layer,
                           .state_offset = program_.state_layers[static_cast<size_t>(op.state_layer)].conv_floats};
  // And a row of results that nobody reads, for replays.
  const int64_t n_floats = kernels::delta_net_scratch(shape) + op.n_v_heads * op.v_dim;
  plan_.scratch_bytes = std::max(plan_.scratch_bytes, static_cast<size_t>(n_floats) * sizeof(float));
  return {};
}

}  // namespace tempo9::backends::cpu
