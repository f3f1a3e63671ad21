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

Node Builder::rope(std::string_view name, Node x, const RopeSpec& rope_spec) {
  const tensor::Value in = value(x);
  const int64_t n_rot = 2 * static_cast<int64_t>(rope_spec.frequencies.size());
  T9_CHECK(in.rows == RowSet::kBatch);
  T9_CHECK_MSG(rope_spec.head_dim > 0 && in.cols % rope_spec.head_dim == 0 && n_rot <= rope_spec.head_dim,
               fmt::format("{}: {} columns, heads of {}, {} rotated", name, in.cols, rope_spec.head_dim, n_rot));
  const Node out = new_value(name, in.cols, in.rows);
  program_.ops.push_back(tensor::Rope{.x = x.id,
                                      .out = out.id,
                                      .frequencies = add_frequencies(rope_spec.frequencies),
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

Node Builder::attention(std::string_view name, Node q, Node k, Node v, const AttentionSpec& attention_spec) {
  T9_CHECK(attention_spec.kv_layer >= 0 && static_cast<size_t>(attention_spec.kv_layer) < program_.kv_layers.size());
  const tensor::KvLayerSpec& layer = program_.kv_layers[static_cast<size_t>(attention_spec.kv_layer)];
  const int64_t n_heads = attention_spec.n_heads;
  T9_CHECK_MSG(n_heads > 0 && n_heads % layer.n_kv_heads == 0,
               fmt::format("{}: {} heads over {} KV heads", name, n_heads, layer.n_kv_heads));
  T9_CHECK_MSG(cols(q) == n_heads * layer.k_head_dim && cols(k) == layer.n_kv_heads * layer.k_head_dim &&
                   cols(v) == layer.n_kv_heads * layer.v_head_dim,
               fmt::format("{}: columns of q, k, v: {}, {}, {}", name, cols(q), cols(k), cols(v)));
  T9_CHECK(value(q).rows == RowSet::kBatch && value(k).rows == RowSet::kBatch && value(v).rows == RowSet::kBatch);
  program_.ops.push_back(tensor::KvWrite{.k = k.id, .v = v.id, .kv_layer = attention_spec.kv_layer});
  const Node out = new_value(name, n_heads * layer.v_head_dim, RowSet::kBatch);
  program_.ops.push_back(tensor::Attention{.q = q.id,
                                           .out = out.id,
                                           .kv_layer = attention_spec.kv_layer,
                                           .n_heads = n_heads,
                                           .scale = attention_spec.scale,
                                           .window = layer.window,
                                           .softcap = attention_spec.softcap,
                                           .sinks = tensor::kNone});
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

tensor::Program Builder::finish(Node logits) && {
  T9_CHECK(value(logits).rows == RowSet::kOutputs);
  program_.logits = logits.id;
  program_.memory = plan_memory(program_);
  return std::move(program_);
}

}  // namespace tempo9::graph
