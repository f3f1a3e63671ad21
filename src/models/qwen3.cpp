// qwen3: the dense Qwen3 models. As llama, with each head of q and k normalised before rope, rope over halves of the
// head, no biases, and a head size of its own (spec models section 6).
#include <fmt/format.h>

#include <cmath>

#include "models/list.h"
#include "models/rope.h"
#include "models/tensors.h"

namespace tempo9::models {
namespace {

using graph::Builder;
using graph::Node;
using graph::Weight;

struct Layer {
  Weight attn_norm;
  Weight attn_q, attn_k, attn_v, attn_output;
  Weight attn_q_norm, attn_k_norm;
  Weight ffn_norm;
  Weight ffn_gate, ffn_up, ffn_down;
};

Layer bind_layer(TensorBinder& bind, const DecoderParams& params, size_t index) {
  const DecoderParams::Layer& dims = params.layers[index];
  const int64_t d = params.n_embd;
  const std::string blk = fmt::format("blk.{}.", index);
  return {
      .attn_norm = bind.vector(blk + "attn_norm.weight", d),
      .attn_q = bind.matrix(blk + "attn_q.weight", d, dims.n_heads * params.k_head_dim),
      .attn_k = bind.matrix(blk + "attn_k.weight", d, dims.n_kv_heads * params.k_head_dim),
      .attn_v = bind.matrix(blk + "attn_v.weight", d, dims.n_kv_heads * params.v_head_dim),
      .attn_output = bind.matrix(blk + "attn_output.weight", dims.n_heads * params.v_head_dim, d),
      .attn_q_norm = bind.vector(blk + "attn_q_norm.weight", params.k_head_dim),
      .attn_k_norm = bind.vector(blk + "attn_k_norm.weight", params.k_head_dim),
      .ffn_norm = bind.vector(blk + "ffn_norm.weight", d),
      .ffn_gate = bind.matrix(blk + "ffn_gate.weight", d, dims.n_ff),
      .ffn_up = bind.matrix(blk + "ffn_up.weight", d, dims.n_ff),
      .ffn_down = bind.matrix(blk + "ffn_down.weight", dims.n_ff, d),
  };
}

Node attend(Builder& b, const Layer& w, const DecoderParams& params, size_t index, const Builder::RopeSpec& rope,
            Node x) {
  const DecoderParams::Layer& dims = params.layers[index];
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, params.rms_eps);
  Node q = b.matmul("q", h, w.attn_q);
  Node k = b.matmul("k", h, w.attn_k);
  const Node v = b.matmul("v", h, w.attn_v);
  q = b.rms_norm("q_norm", q, w.attn_q_norm, params.rms_eps, params.k_head_dim);
  k = b.rms_norm("k_norm", k, w.attn_k_norm, params.rms_eps, params.k_head_dim);
  q = b.rope("q_rope", q, rope);
  k = b.rope("k_rope", k, rope);
  const int32_t kv_layer =
      b.add_kv_layer({.n_kv_heads = dims.n_kv_heads, .k_head_dim = params.k_head_dim, .v_head_dim = params.v_head_dim});
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(params.k_head_dim)));
  return b.attention("attn", q, k, v, {.kv_layer = kv_layer, .n_heads = dims.n_heads, .scale = scale});
}

Node feed_forward(Builder& b, const Layer& w, const DecoderParams& params, Node x) {
  const Node h = b.rms_norm("ffn_norm", x, w.ffn_norm, params.rms_eps);
  const Node gate = b.matmul("ffn_gate", h, w.ffn_gate);
  const Node up = b.matmul("ffn_up", h, w.ffn_up);
  return b.matmul("ffn_down", b.gated_activation("ffn_gated", gate, up, tensor::Activation::kSilu), w.ffn_down);
}

}  // namespace

Result<Model> load_qwen3(std::shared_ptr<const gguf::File> file) {
  const Keys keys(file->metadata(), "qwen3");
  T9_TRY_VOID(refuse_experts(keys));
  T9_TRY(params, read_decoder_params(keys));
  T9_TRY(vocabulary, read_vocabulary(*file, keys));
  T9_TRY(base, keys.find_positive("rope.freq_base", 10000.0));
  T9_TRY(scaling, read_rope_scaling(keys, params.context_length));
  T9_TRY(rope, make_rope({.base = base,
                          .n_rot = params.n_rot,
                          .head_dim = params.k_head_dim,
                          .pairs = tensor::RopePairs::kHalves,
                          .scaling = scaling}));

  Builder b;
  TensorBinder bind(*file, b);
  const Embeddings embeddings = bind_embeddings(bind, vocabulary, params.n_embd);
  const Weight output_norm = bind.vector("output_norm.weight", params.n_embd);
  std::vector<Layer> layers;
  for (size_t i = 0; i < params.layers.size(); ++i) layers.push_back(bind_layer(bind, params, i));
  T9_TRY_VOID(bind.status());

  Node x = b.embed("embd", embeddings.table, 1.0f);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& w = layers[i];
    b.set_prefix(fmt::format("blk.{}.", i));
    Node attn = attend(b, w, params, i, rope, x);
    if (i + 1 == layers.size()) {  // nothing after the last attention needs the other rows
      attn = b.select_outputs("attn_selected", attn);
      x = b.select_outputs("x_selected", x);
    }
    x = b.add("attn_residual", x, b.matmul("attn_output", attn, w.attn_output));
    x = b.add("out", x, feed_forward(b, w, params, x));
  }
  b.set_prefix("");
  const Node last = b.rms_norm("output_norm", x, output_norm, params.rms_eps);
  const Node logits = b.matmul("logits", last, embeddings.head);
  return make_model(std::move(file), params, bind, std::move(b).finish(logits));
}

}  // namespace tempo9::models
