#include "graph/builder.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace tempo9::graph {

using tensor::RowSet;
using tensor::WeightId;

namespace {

// A vector that a kernel reads as floats: norm weights and biases.
void check_vector(const tensor::WeightSpec& spec, int64_t elements) {
  T9_CHECK_MSG(spec.dtype == tensor::DType::kF32 && spec.rows == 1 && spec.depth == 1 && spec.cols == elements,
               fmt::format("{}: {} [{}, {}, {}] where a vector of {} F32 is needed", spec.name,
                           tensor::dtype_name(spec.dtype), spec.cols, spec.rows, spec.depth, elements));
}

}  // namespace

Weight Builder::weight(tensor::WeightSpec spec) {
  T9_CHECK_MSG(spec.cols > 0 && spec.rows > 0 && spec.depth > 0, spec.name);
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

Node Builder::new_value(std::string_view name, int64_t cols, RowSet rows) {
  program_.values.push_back({.name = prefix_ + std::string(name), .cols = cols, .rows = rows});
  return {static_cast<tensor::ValueId>(program_.values.size() - 1)};
}

Node Builder::embed(std::string_view name, Weight table, float scale) {
  T9_CHECK(spec(table).depth == 1);
  const Node out = new_value(name, spec(table).cols, RowSet::kBatch);
  program_.ops.push_back(tensor::Embed{.table = table.id, .out = out.id, .scale = scale});
  return out;
}

Node Builder::rms_norm(std::string_view name, Node x, Weight weight, float eps, int64_t group) {
  const tensor::Value in = value(x);
  if (group == 0) group = in.cols;
  T9_CHECK_MSG(group > 0 && in.cols % group == 0, fmt::format("{}: {} columns, group {}", name, in.cols, group));
  T9_CHECK(eps > 0.0f);
  if (weight) check_vector(spec(weight), group);
  const Node out = new_value(name, in.cols, in.rows);
  program_.ops.push_back(tensor::RmsNorm{.x = x.id, .weight = weight.id, .out = out.id, .eps = eps, .group = group});
  return out;
}

Node Builder::matmul(std::string_view name, Node x, Weight weight, Weight bias) {
  const tensor::WeightSpec& w = spec(weight);
  const tensor::Value in = value(x);
  T9_CHECK_MSG(w.depth == 1 && w.cols == in.cols,
               fmt::format("{}: {} [{}, {}, {}] times {} columns", name, w.name, w.cols, w.rows, w.depth, in.cols));
  if (bias) check_vector(spec(bias), w.rows);
  const Node out = new_value(name, w.rows, in.rows);
  program_.ops.push_back(tensor::MatMul{.x = x.id, .weight = weight.id, .bias = bias.id, .out = out.id});
  return out;
}

Node Builder::add(std::string_view name, Node a, Node b) {
  const tensor::Value in = value(a);
  T9_CHECK_MSG(in.cols == cols(b), fmt::format("{}: {} and {} columns", name, in.cols, cols(b)));
  T9_CHECK(in.rows == value(b).rows);
  const Node out = new_value(name, in.cols, in.rows);
  program_.ops.push_back(tensor::Add{.a = a.id, .b = b.id, .out = out.id});
  return out;
}

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
  const tensor::Value in = value(x);
  const int64_t n_rot = 2 * static_cast<int64_t>(rope_spec.frequencies.size());
  T9_CHECK(in.rows == RowSet::kBatch);
  T9_CHECK(rope_spec.axes.empty() || rope_spec.axes.size() == rope_spec.frequencies.size());
  T9_CHECK_MSG(rope_spec.head_dim > 0 && in.cols % rope_spec.head_dim == 0 && n_rot <= rope_spec.head_dim,
               fmt::format("{}: {} columns, heads of {}, {} rotated", name, in.cols, rope_spec.head_dim, n_rot));
  const Node out = new_value(name, in.cols, in.rows);
  program_.ops.push_back(tensor::Rope{.x = x.id,
                                      .out = out.id,
                                      .frequencies = add_frequencies(rope_spec.frequencies),
                                      .axes = add_axes(rope_spec.axes),
                                      .head_dim = rope_spec.head_dim,
                                      .n_rot = n_rot,
                                      .pairs = rope_spec.pairs,
                                      .magnitude = rope_spec.magnitude});
  return out;
}

int32_t Builder::add_kv_layer(const tensor::KvLayerSpec& layer) {
  T9_CHECK(layer.n_kv_heads > 0 && layer.k_head_dim > 0 && layer.v_head_dim > 0 && layer.window >= 0);
  program_.kv_layers.push_back(layer);
  return static_cast<int32_t>(program_.kv_layers.size() - 1);
}

const tensor::KvLayerSpec& Builder::kv_layer(int32_t index) const {
  T9_CHECK(index >= 0 && static_cast<size_t>(index) < program_.kv_layers.size());
  return program_.kv_layers[static_cast<size_t>(index)];
}

Node Builder::attention(std::string_view name, Node q, Node k, Node v, const AttentionSpec& attention_spec) {
  const tensor::KvLayerSpec& layer = kv_layer(attention_spec.kv_layer);
  T9_CHECK_MSG(cols(k) == layer.n_kv_heads * layer.k_head_dim && cols(v) == layer.n_kv_heads * layer.v_head_dim,
               fmt::format("{}: columns of k, v: {}, {}", name, cols(k), cols(v)));
  T9_CHECK(value(k).rows == RowSet::kBatch && value(v).rows == RowSet::kBatch);
  program_.ops.push_back(tensor::KvWrite{.k = k.id, .v = v.id, .kv_layer = attention_spec.kv_layer});
  return attention_shared(name, q, attention_spec);
}

Node Builder::attention_shared(std::string_view name, Node q, const AttentionSpec& attention_spec) {
  const tensor::KvLayerSpec& layer = kv_layer(attention_spec.kv_layer);
  const int64_t n_heads = attention_spec.n_heads;
  T9_CHECK_MSG(n_heads > 0 && n_heads % layer.n_kv_heads == 0,
               fmt::format("{}: {} heads over {} KV heads", name, n_heads, layer.n_kv_heads));
  T9_CHECK_MSG(cols(q) == n_heads * layer.k_head_dim, fmt::format("{}: columns of q: {}", name, cols(q)));
  T9_CHECK(value(q).rows == RowSet::kBatch);
  if (attention_spec.sinks) check_vector(spec(attention_spec.sinks), n_heads);
  const Node out = new_value(name, n_heads * layer.v_head_dim, RowSet::kBatch);
  program_.ops.push_back(tensor::Attention{.q = q.id,
                                           .out = out.id,
                                           .kv_layer = attention_spec.kv_layer,
                                           .n_heads = n_heads,
                                           .scale = attention_spec.scale,
                                           .window = layer.window,
                                           .softcap = attention_spec.softcap,
                                           .sinks = attention_spec.sinks.id});
  return out;
}

Node Builder::gated_activation(std::string_view name, Node gate, Node up, tensor::Activation activation) {
  const tensor::Value in = value(gate);
  T9_CHECK_MSG(in.cols == cols(up), fmt::format("{}: {} and {} columns", name, in.cols, cols(up)));
  T9_CHECK(in.rows == value(up).rows);
  const Node out = new_value(name, in.cols, in.rows);
  program_.ops.push_back(
      tensor::GatedActivation{.gate = gate.id, .up = up.id, .out = out.id, .activation = activation});
  return out;
}

Node Builder::select_outputs(std::string_view name, Node x) {
  T9_CHECK(value(x).rows == RowSet::kBatch);
  const Node out = new_value(name, cols(x), RowSet::kOutputs);
  program_.ops.push_back(tensor::SelectOutputs{.x = x.id, .out = out.id});
  return out;
}

Node Builder::soft_cap(std::string_view name, Node x, float cap) {
  T9_CHECK(cap > 0.0f);
  const tensor::Value in = value(x);
  const Node out = new_value(name, in.cols, in.rows);
  program_.ops.push_back(tensor::SoftCap{.x = x.id, .out = out.id, .cap = cap});
  return out;
}

Node Builder::scale(std::string_view name, Node x, float factor, Weight by) {
  if (by) check_vector(spec(by), 1);
  const Node out = new_value(name, cols(x), value(x).rows);
  program_.ops.push_back(tensor::Scale{.x = x.id, .by = by.id, .out = out.id, .factor = factor});
  return out;
}

Node Builder::take_columns(std::string_view name, Node x, int64_t group, int64_t begin, int64_t count) {
  T9_CHECK_MSG(group > 0 && cols(x) % group == 0 && begin >= 0 && count > 0 && begin + count <= group,
               fmt::format("{}: columns {} to {} of each {} of {}", name, begin, begin + count, group, cols(x)));
  const Node out = new_value(name, cols(x) / group * count, value(x).rows);
  program_.ops.push_back(tensor::TakeColumns{.x = x.id, .out = out.id, .group = group, .begin = begin, .count = count});
  return out;
}

Node Builder::concat(std::string_view name, Node a, Node b) {
  T9_CHECK(value(a).rows == value(b).rows);
  const Node out = new_value(name, cols(a) + cols(b), value(a).rows);
  program_.ops.push_back(tensor::Concat{.a = a.id, .b = b.id, .out = out.id});
  return out;
}

Node Builder::gate_rows(std::string_view name, Node gate, Node x) {
  T9_CHECK_MSG(cols(gate) == 1, fmt::format("{}: gate of {} columns", name, cols(gate)));
  T9_CHECK(value(gate).rows == value(x).rows);
  const Node out = new_value(name, cols(x), value(x).rows);
  program_.ops.push_back(tensor::GateRows{.gate = gate.id, .x = x.id, .out = out.id});
  return out;
}

Node Builder::position_scale(std::string_view name, Node x, float beta, int64_t period) {
  T9_CHECK(value(x).rows == RowSet::kBatch && period > 0);
  const Node out = new_value(name, cols(x), RowSet::kBatch);
  program_.ops.push_back(tensor::PositionScale{.x = x.id, .out = out.id, .beta = beta, .period = period});
  return out;
}

void Builder::check_bias(Weight bias, int64_t elements, int64_t n_experts) const {
  if (!bias) return;
  const tensor::WeightSpec& b = spec(bias);
  T9_CHECK_MSG(b.dtype == tensor::DType::kF32 && b.cols == elements && b.rows == n_experts && b.depth == 1, b.name);
}

Node Builder::experts(std::string_view name, Node x, Node router, const ExpertsSpec& e) {
  const tensor::WeightSpec &gate = spec(e.gate), &down = spec(e.down);
  const int64_t n_experts = cols(router);
  const int64_t n_ff = down.cols;
  T9_CHECK_MSG(gate.depth == n_experts && down.depth == n_experts && gate.cols == cols(x) &&
                   gate.rows == (e.up ? n_ff : 2 * n_ff),
               fmt::format("{}: {} and {} over {} experts", name, gate.name, down.name, n_experts));
  if (e.up) {
    const tensor::WeightSpec& up = spec(e.up);
    T9_CHECK_MSG(up.depth == n_experts && up.cols == cols(x) && up.rows == n_ff, up.name);
  }
  T9_CHECK(e.n_used > 0 && e.n_used <= n_experts && value(x).rows == value(router).rows);
  check_bias(e.gate_bias, gate.rows, n_experts);
  check_bias(e.up_bias, n_ff, n_experts);
  check_bias(e.down_bias, down.rows, n_experts);
  if (e.expert_scale) check_vector(spec(e.expert_scale), n_experts);
  const Node out = new_value(name, down.rows, value(x).rows);
  program_.ops.push_back(tensor::Experts{.x = x.id,
                                         .router = router.id,
                                         .out = out.id,
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
  return out;
}

int32_t Builder::add_state_layer(const tensor::StateLayerSpec& layer) {
  T9_CHECK(layer.conv_floats > 0 && layer.delta_floats > 0);
  program_.state_layers.push_back(layer);
  return static_cast<int32_t>(program_.state_layers.size() - 1);
}

const tensor::StateLayerSpec& Builder::state_layer(int32_t index) const {
  T9_CHECK(index >= 0 && static_cast<size_t>(index) < program_.state_layers.size());
  return program_.state_layers[static_cast<size_t>(index)];
}

Node Builder::causal_conv(std::string_view name, Node x, Weight weight, int32_t layer) {
  const tensor::WeightSpec& w = spec(weight);
  T9_CHECK_MSG(w.dtype == tensor::DType::kF32 && w.rows == cols(x) && w.cols > 1 && w.depth == 1, w.name);
  T9_CHECK(state_layer(layer).conv_floats == (w.cols - 1) * w.rows && value(x).rows == RowSet::kBatch);
  const Node out = new_value(name, cols(x), RowSet::kBatch);
  program_.ops.push_back(tensor::CausalConv{.x = x.id, .weight = weight.id, .out = out.id, .state_layer = layer});
  return out;
}

Node Builder::delta_net(std::string_view name, Node qkv, Node beta, Node alpha, Weight a, Weight dt,
                        const DeltaNetSpec& s) {
  T9_CHECK_MSG(cols(qkv) == 2 * s.n_k_heads * s.k_dim + s.n_v_heads * s.v_dim && cols(beta) == s.n_v_heads &&
                   cols(alpha) == s.n_v_heads && s.n_v_heads % s.n_k_heads == 0,
               fmt::format("{}: columns {}, {}, {}", name, cols(qkv), cols(beta), cols(alpha)));
  T9_CHECK(state_layer(s.state_layer).delta_floats == s.n_v_heads * s.k_dim * s.v_dim);
  check_vector(spec(a), s.n_v_heads);
  check_vector(spec(dt), s.n_v_heads);
  const Node out = new_value(name, s.n_v_heads * s.v_dim, RowSet::kBatch);
  program_.ops.push_back(tensor::DeltaNet{.qkv = qkv.id,
                                          .beta = beta.id,
                                          .alpha = alpha.id,
                                          .a = a.id,
                                          .dt = dt.id,
                                          .out = out.id,
                                          .state_layer = s.state_layer,
                                          .n_k_heads = s.n_k_heads,
                                          .n_v_heads = s.n_v_heads,
                                          .k_dim = s.k_dim,
                                          .v_dim = s.v_dim});
  return out;
}

Node Builder::input(std::string_view name, int64_t columns) {
  T9_CHECK(columns > 0);
  const Node out = new_value(name, columns, RowSet::kBatch);
  program_.ops.push_back(tensor::Input{.out = out.id});
  return out;
}

void Builder::set_hidden(Node x) {
  T9_CHECK(value(x).rows == RowSet::kBatch);
  program_.hidden = x.id;
}

tensor::Program Builder::finish(Node logits) && {
  T9_CHECK(value(logits).rows == RowSet::kOutputs);
  program_.logits = logits.id;
  program_.memory = plan_memory(program_);
  return std::move(program_);
}

}  // namespace tempo9::graph
