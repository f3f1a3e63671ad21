#include "graph/builder.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "graph/shapes.h"

namespace tempo9::graph {

using tensor::RowSet;
using tensor::WeightId;

Weight Builder::weight(tensor::WeightSpec spec) {
  T9_CHECK_MSG(check_weight(spec).has_value(), spec.name);
  program_.weights.push_back(std::move(spec));
  return {static_cast<WeightId>(program_.weights.size() - 1)};
}

const tensor::WeightSpec& Builder::spec(Weight w) const {
  T9_CHECK(w.id >= 0 && static_cast<size_t>(w.id) < program_.weights.size());
  return program_.weights[static_cast<size_t>(w.id)];
}

int64_t Builder::cols(Node x) const { return value(x).cols; }

void Builder::set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

const tensor::Value& Builder::value(Node x) const {
  T9_CHECK(x.id >= 0 && static_cast<size_t>(x.id) < program_.values.size());
  return program_.values[static_cast<size_t>(x.id)];
}

template <class Op>
Node Builder::append(std::string_view name, Op op) {
  const auto shape = output_shape(program_, op);
  T9_CHECK_MSG(shape.has_value(), fmt::format("{}{}: {}", prefix_, name, shape.error().message()));
  op.out = static_cast<tensor::ValueId>(program_.values.size());
  program_.values.push_back({.name = prefix_ + std::string(name), .cols = shape->cols, .rows = shape->rows});
  program_.ops.push_back(op);
  return {op.out};
}

Node Builder::embed(std::string_view name, Weight table, float scale) {
  return append(name, tensor::Embed{.table = table.id, .scale = scale});
}

Node Builder::rms_norm(std::string_view name, Node x, Weight weight, float eps, int64_t group) {
  if (group == 0) group = cols(x);
  return append(name, tensor::RmsNorm{.x = x.id, .weight = weight.id, .eps = eps, .group = group});
}

Node Builder::matmul(std::string_view name, Node x, Weight weight, Weight bias) {
  return append(name, tensor::MatMul{.x = x.id, .weight = weight.id, .bias = bias.id});
}

Node Builder::add(std::string_view name, Node a, Node b) { return append(name, tensor::Add{.a = a.id, .b = b.id}); }

int32_t Builder::add_frequencies(const std::vector<float>& frequencies) {
  std::vector<std::vector<float>>& tables = program_.rope_frequencies;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i] == frequencies) return static_cast<int32_t>(i);
  }
  tables.push_back(frequencies);
  return static_cast<int32_t>(tables.size() - 1);
}

int32_t Builder::add_axes(const std::vector<uint8_t>& axes) {
  if (axes.empty()) return tensor::kNone;
  std::vector<std::vector<uint8_t>>& tables = program_.rope_axes;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i] == axes) return static_cast<int32_t>(i);
  }
  tables.push_back(axes);
  return static_cast<int32_t>(tables.size() - 1);
}

Node Builder::rope(std::string_view name, Node x, const RopeSpec& rope_spec) {
  return append(name, tensor::Rope{.x = x.id,
                                   .frequencies = add_frequencies(rope_spec.frequencies),
                                   .axes = add_axes(rope_spec.axes),
                                   .head_dim = rope_spec.head_dim,
                                   .n_rot = 2 * std::ssize(rope_spec.frequencies),
                                   .pairs = rope_spec.pairs,
                                   .magnitude = rope_spec.magnitude});
}

int32_t Builder::add_kv_layer(const tensor::KvLayerSpec& layer) {
  T9_CHECK(check_kv_layer(layer).has_value());
  program_.kv_layers.push_back(layer);
  return static_cast<int32_t>(program_.kv_layers.size() - 1);
}

Node Builder::attention(std::string_view name, Node q, Node k, Node v, const AttentionSpec& attention_spec) {
  const tensor::KvWrite write{.k = k.id, .v = v.id, .kv_layer = attention_spec.kv_layer};
  const auto fits = output_shape(program_, write);
  T9_CHECK_MSG(fits.has_value(), fmt::format("{}{}: {}", prefix_, name, fits.error().message()));
  program_.ops.push_back(write);
  return attention_shared(name, q, attention_spec);
}

Node Builder::attention_shared(std::string_view name, Node q, const AttentionSpec& attention_spec) {
  const auto layer = static_cast<size_t>(attention_spec.kv_layer);
  T9_CHECK(layer < program_.kv_layers.size());
  return append(name, tensor::Attention{.q = q.id,
                                        .kv_layer = attention_spec.kv_layer,
                                        .n_heads = attention_spec.n_heads,
                                        .scale = attention_spec.scale,
                                        .window = program_.kv_layers[layer].window,
                                        .softcap = attention_spec.softcap,
                                        .sinks = attention_spec.sinks.id});
}

Node Builder::gated_activation(std::string_view name, Node gate, Node up, tensor::Activation activation) {
  return append(name, tensor::GatedActivation{.gate = gate.id, .up = up.id, .activation = activation});
}

Node Builder::select_outputs(std::string_view name, Node x) { return append(name, tensor::SelectOutputs{.x = x.id}); }

Node Builder::soft_cap(std::string_view name, Node x, float cap) {
  return append(name, tensor::SoftCap{.x = x.id, .cap = cap});
}

Node Builder::scale(std::string_view name, Node x, float factor, Weight by) {
  return append(name, tensor::Scale{.x = x.id, .by = by.id, .factor = factor});
}

Node Builder::take_columns(std::string_view name, Node x, int64_t group, int64_t begin, int64_t count) {
  return append(name, tensor::TakeColumns{.x = x.id, .group = group, .begin = begin, .count = count});
}

Node Builder::concat(std::string_view name, Node a, Node b) {
  return append(name, tensor::Concat{.a = a.id, .b = b.id});
}

Node Builder::gate_rows(std::string_view name, Node gate, Node x) {
  return append(name, tensor::GateRows{.gate = gate.id, .x = x.id});
}

Node Builder::position_scale(std::string_view name, Node x, float beta, int64_t period) {
  return append(name, tensor::PositionScale{.x = x.id, .beta = beta, .period = period});
}

Node Builder::experts(std::string_view name, Node x, Node router, const ExpertsSpec& e) {
  return append(name, tensor::Experts{.x = x.id,
                                      .router = router.id,
                                      .gate = e.gate.id,
                                      .up = e.up.id,
                                      .down = e.down.id,
                                      .gate_bias = e.gate_bias.id,
                                      .up_bias = e.up_bias.id,
                                      .down_bias = e.down_bias.id,
                                      .expert_scale = e.expert_scale.id,
                                      .n_used = e.n_used,
                                      .weight_scale = e.weight_scale,
                                      .activation = e.activation});
}

int32_t Builder::add_state_layer(const tensor::StateLayerSpec& layer) {
  T9_CHECK(check_state_layer(layer).has_value());
  program_.state_layers.push_back(layer);
  return static_cast<int32_t>(program_.state_layers.size() - 1);
}

Node Builder::causal_conv(std::string_view name, Node x, Weight weight, int32_t layer) {
  return append(name, tensor::CausalConv{.x = x.id, .weight = weight.id, .state_layer = layer});
}

Node Builder::delta_net(std::string_view name, Node qkv, Node beta, Node alpha, Weight a, Weight dt,
                        const DeltaNetSpec& s) {
  return append(name, tensor::DeltaNet{.qkv = qkv.id,
                                       .beta = beta.id,
                                       .alpha = alpha.id,
                                       .a = a.id,
                                       .dt = dt.id,
                                       .state_layer = s.state_layer,
                                       .n_k_heads = s.n_k_heads,
                                       .n_v_heads = s.n_v_heads,
                                       .k_dim = s.k_dim,
                                       .v_dim = s.v_dim});
}

Node Builder::input(std::string_view name, int64_t columns) { return append(name, tensor::Input{.cols = columns}); }

Node Builder::add_embedding(std::string_view name, Node x, int64_t begin) {
  return append(name, tensor::AddEmbedding{.x = x.id, .begin = begin});
}

void Builder::set_hidden(Node x) { program_.hidden = x.id; }

tensor::Program Builder::finish(Node logits) && {
  T9_CHECK(value(logits).rows == RowSet::kOutputs);
  program_.logits = logits.id;
  program_.memory = plan_memory(program_);
  return std::move(program_);
}

}  // namespace tempo9::graph
