#include "models/layers.h"

#include <cmath>

namespace tempo9::models {
namespace {

using graph::Builder;
using graph::Node;
using graph::Weight;

Weight bind_part(TensorBinder& bind, const std::string& name, int64_t elements, Presence presence) {
  switch (presence) {
    case Presence::kNever:
      return {};
    case Presence::kOptional:
      return bind.find_vector(name, elements);
    case Presence::kAlways:
      return bind.vector(name, elements);
  }
  return {};
}

}  // namespace

AttentionWeights bind_attention(TensorBinder& bind, const std::string& prefix, int64_t n_embd, const HeadShape& heads,
                                const AttentionParts& parts) {
  AttentionWeights w;
  w.heads = heads;
  if (bind.has(prefix + "attn_qkv.weight")) {
    const int64_t rows = heads.q_cols() + heads.k_cols() + heads.v_cols();
    w.qkv = bind.matrix(prefix + "attn_qkv.weight", n_embd, rows);
    w.qkv_bias = bind_part(bind, prefix + "attn_qkv.bias", rows, parts.qkv_bias);
  } else {
    w.q = bind.matrix(prefix + "attn_q.weight", n_embd, heads.q_cols());
    w.k = bind.matrix(prefix + "attn_k.weight", n_embd, heads.k_cols());
    w.v = bind.matrix(prefix + "attn_v.weight", n_embd, heads.v_cols());
    w.q_bias = bind_part(bind, prefix + "attn_q.bias", heads.q_cols(), parts.qkv_bias);
    w.k_bias = bind_part(bind, prefix + "attn_k.bias", heads.k_cols(), parts.qkv_bias);
    w.v_bias = bind_part(bind, prefix + "attn_v.bias", heads.v_cols(), parts.qkv_bias);
  }
  w.output = bind.matrix(prefix + "attn_output.weight", heads.out_cols(), n_embd);
  w.output_bias = bind_part(bind, prefix + "attn_output.bias", n_embd, parts.output_bias);
  w.q_norm = bind_part(bind, prefix + "attn_q_norm.weight", heads.k_head_dim, parts.head_norms);
  w.k_norm = bind_part(bind, prefix + "attn_k_norm.weight", heads.k_head_dim, parts.head_norms);
  return w;
}

Heads project_heads(Builder& builder, const AttentionWeights& weights, Node h) {
  if (!weights.qkv) {
    return {.q = builder.matmul("q", h, weights.q, weights.q_bias),
            .k = builder.matmul("k", h, weights.k, weights.k_bias),
            .v = builder.matmul("v", h, weights.v, weights.v_bias)};
  }
  const HeadShape& shape = weights.heads;
  const Node all = builder.matmul("qkv", h, weights.qkv, weights.qkv_bias);
  const auto part = [&](std::string_view name, int64_t begin, int64_t count) {
    return builder.take_columns(name, all, builder.cols(all), begin, count);
  };
  return {.q = part("q", 0, shape.q_cols()),
          .k = part("k", shape.q_cols(), shape.k_cols()),
          .v = part("v", shape.q_cols() + shape.k_cols(), shape.v_cols())};
}

Heads normalise_heads(Builder& builder, const AttentionWeights& weights, const Heads& heads, const HeadShape& shape,
                      float eps) {
  return {.q = builder.rms_norm("q_norm", heads.q, weights.q_norm, eps, shape.k_head_dim),
          .k = builder.rms_norm("k_norm", heads.k, weights.k_norm, eps, shape.k_head_dim),
          .v = heads.v};
}

Heads rotate_heads(Builder& builder, const Heads& heads, const Builder::RopeSpec& rope) {
  return {.q = builder.rope("q_rope", heads.q, rope), .k = builder.rope("k_rope", heads.k, rope), .v = heads.v};
}

float head_scale(const HeadShape& shape) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.k_head_dim)));
}

Node attend(Builder& builder, const Heads& heads, const HeadShape& shape, const AttendOptions& options) {
  const int32_t kv_layer = builder.add_kv_layer({.n_kv_heads = shape.n_kv_heads,
                                                 .k_head_dim = shape.k_head_dim,
                                                 .v_head_dim = shape.v_head_dim,
                                                 .window = options.window});
  return builder.attention(
      "attn", heads.q, heads.k, heads.v,
      {.kv_layer = kv_layer, .n_heads = shape.n_heads, .scale = options.scale, .sinks = options.sinks});
}

FeedForwardWeights bind_feed_forward(TensorBinder& bind, const std::string& prefix, int64_t n_embd, int64_t n_ff,
                                     Presence biases) {
  return {
      .gate = bind.matrix(prefix + "ffn_gate.weight", n_embd, n_ff),
      .up = bind.matrix(prefix + "ffn_up.weight", n_embd, n_ff),
      .down = bind.matrix(prefix + "ffn_down.weight", n_ff, n_embd),
      .gate_bias = bind_part(bind, prefix + "ffn_gate.bias", n_ff, biases),
      .up_bias = bind_part(bind, prefix + "ffn_up.bias", n_ff, biases),
      .down_bias = bind_part(bind, prefix + "ffn_down.bias", n_embd, biases),
  };
}

Node feed_forward(Builder& builder, const FeedForwardWeights& weights, tensor::Activation activation, Node h) {
  const Node gate = builder.matmul("ffn_gate", h, weights.gate, weights.gate_bias);
  const Node up = builder.matmul("ffn_up", h, weights.up, weights.up_bias);
  const Node gated = builder.gated_activation("ffn_gated", gate, up, activation);
  return builder.matmul("ffn_down", gated, weights.down, weights.down_bias);
}

}  // namespace tempo9::models
