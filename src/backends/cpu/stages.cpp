// Operations that are a step of their own.
#include "backends/cpu/planner.h"

namespace tempo9::backends::cpu {

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
  return {};
}

}  // namespace tempo9::backends::cpu
