// The parts that most decoders share: weights of attention and of dense feed-forward layers by their usual names, and
// the ops between them. What an architecture does differently is in its own file.
#pragma once

#include <cstdint>
#include <string>

#include "graph/builder.h"
#include "models/hyperparameters.h"
#include "models/tensors.h"

namespace tempo9::models {

// Whether the files of an architecture have a part.
enum class Presence : uint8_t { kNever, kOptional, kAlways };

struct AttentionWeights {
  graph::Weight q, k, v, output;
  graph::Weight qkv, qkv_bias;  // instead of q, k and v in files that have one matrix: the rows of q, then k, then v
  HeadShape heads;
  graph::Weight q_bias, k_bias, v_bias, output_bias;
  graph::Weight q_norm, k_norm;  // over each head
};

struct AttentionParts {
  Presence qkv_bias = Presence::kNever;
  Presence output_bias = Presence::kNever;
  Presence head_norms = Presence::kNever;
};

// "blk.N.attn_q.weight" and so on, or "blk.N.attn_qkv.weight", where `prefix` is "blk.N.".
AttentionWeights bind_attention(TensorBinder& bind, const std::string& prefix, int64_t n_embd, const HeadShape& heads,
                                const AttentionParts& parts = {});

// The rows of one layer on their way to attention: heads side by side.
struct Heads {
  graph::Node q, k, v;
};
// "q", "k", "v"
Heads project_heads(graph::Builder& builder, const AttentionWeights& weights, graph::Node h);
// "q_norm", "k_norm": each head of q and k on its own
Heads normalise_heads(graph::Builder& builder, const AttentionWeights& weights, const Heads& heads,
                      const HeadShape& shape, float eps);
// "q_rope", "k_rope"
Heads rotate_heads(graph::Builder& builder, const Heads& heads, const graph::Builder::RopeSpec& rope);

// 1 / sqrt(size of a head of k)
float head_scale(const HeadShape& shape);

struct AttendOptions {
  float scale = 0.0f;
  int64_t window = 0;        // 0: all earlier tokens
  graph::Weight sinks = {};  // one logit per head
};
// "attn": over a KV layer of its own. The output projection is left to the caller, who may drop rows before it.
graph::Node attend(graph::Builder& builder, const Heads& heads, const HeadShape& shape, const AttendOptions& options);

struct FeedForwardWeights {
  graph::Weight gate, up, down;
  graph::Weight gate_bias, up_bias, down_bias;
};
// "blk.N.ffn_gate.weight" and so on; `prefix` is "blk.N.".
FeedForwardWeights bind_feed_forward(TensorBinder& bind, const std::string& prefix, int64_t n_embd, int64_t n_ff,
                                     Presence biases = Presence::kNever);
// down(activation(gate(h)) * up(h))
graph::Node feed_forward(graph::Builder& builder, const FeedForwardWeights& weights, tensor::Activation activation,
                         graph::Node h);

}  // namespace tempo9::models
