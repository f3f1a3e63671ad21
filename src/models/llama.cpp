// llama: Llama 1 to 3, Mistral 7B, TinyLlama, SmolLM2. Dense pre-norm decoder, RMS norm, rotary positions over
// interleaved pairs (the converter permuted the rows of q and k for that), SwiGLU (spec models section 3).
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
  Weight attn_q_bias, attn_k_bias, attn_v_bias, attn_output_bias;  // Qwen-like conversions and Llama variants
  Weight ffn_norm;
  Weight ffn_gate, ffn_up, ffn_down;
  Weight ffn_gate_bias, ffn_up_bias, ffn_down_bias;
};

Layer bind_layer(TensorBinder& bind, const DecoderParams& params, size_t index) {
  const DecoderParams::Layer& dims = params.layers[index];
  const int64_t d = params.n_embd;
  const int64_t q_cols = dims.n_heads * params.k_head_dim;
  const int64_t k_cols = dims.n_kv_heads * params.k_head_dim;
  const int64_t v_cols = dims.n_kv_heads * params.v_head_dim;
  const int64_t attn_cols = dims.n_heads * params.v_head_dim;
  const std::string blk = fmt::format("blk.{}.", index);
  return {
      .attn_norm = bind.vector(blk + "attn_norm.weight", d),
      .attn_q = bind.matrix(blk + "attn_q.weight", d, q_cols),
      .attn_k = bind.matrix(blk + "attn_k.weight", d, k_cols),
      .attn_v = bind.matrix(blk + "attn_v.weight", d, v_cols),
      .attn_output = bind.matrix(blk + "attn_output.weight", attn_cols, d),
      .attn_q_bias = bind.find_vector(blk + "attn_q.bias", q_cols),
      .attn_k_bias = bind.find_vector(blk + "attn_k.bias", k_cols),
      .attn_v_bias = bind.find_vector(blk + "attn_v.bias", v_cols),
      .attn_output_bias = bind.find_vector(blk + "attn_output.bias", d),
      .ffn_norm = bind.vector(blk + "ffn_norm.weight", d),
      .ffn_gate = bind.matrix(blk + "ffn_gate.weight", d, dims.n_ff),
      .ffn_up = bind.matrix(blk + "ffn_up.weight", d, dims.n_ff),
      .ffn_down = bind.matrix(blk + "ffn_down.weight", dims.n_ff, d),
      .ffn_gate_bias = bind.find_vector(blk + "ffn_gate.bias", dims.n_ff),
      .ffn_up_bias = bind.find_vector(blk + "ffn_up.bias", dims.n_ff),
      .ffn_down_bias = bind.find_vector(blk + "ffn_down.bias", d),
  };
}

Node attend(Builder& b, const Layer& w, const DecoderParams& params, size_t index, const Builder::RopeSpec& rope,
            Node x) {
  const DecoderParams::Layer& dims = params.layers[index];
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, params.rms_eps);
  const Node q = b.rope("q_rope", b.matmul("q", h, w.attn_q, w.attn_q_bias), rope);
  const Node k = b.rope("k_rope", b.matmul("k", h, w.attn_k, w.attn_k_bias), rope);
  const Node v = b.matmul("v", h, w.attn_v, w.attn_v_bias);
  const int32_t kv_layer =
      b.add_kv_layer({.n_kv_heads = dims.n_kv_heads, .k_head_dim = params.k_head_dim, .v_head_dim = params.v_head_dim});
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(params.k_head_dim)));
  return b.attention("attn", q, k, v, {.kv_layer = kv_layer, .n_heads = dims.n_heads, .scale = scale});
}

Node feed_forward(Builder& b, const Layer& w, const DecoderParams& params, Node x) {
  const Node h = b.rms_norm("ffn_norm", x, w.ffn_norm, params.rms_eps);
  const Node gate = b.matmul("ffn_gate", h, w.ffn_gate, w.ffn_gate_bias);
  const Node up = b.matmul("ffn_up", h, w.ffn_up, w.ffn_up_bias);
  const Node gated = b.gated_activation("ffn_gated", gate, up, tensor::Activation::kSilu);
  return b.matmul("ffn_down", gated, w.ffn_down, w.ffn_down_bias);
}

Result<DecoderParams> read_params(const Keys& keys) {
  T9_TRY_VOID(refuse_experts(keys));
  T9_TRY(params, read_decoder_params(keys));
  if (params.n_rot != params.k_head_dim) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} is {}, must equal the head size {}", keys.full_name("rope.dimension_count"),
                            params.n_rot, params.k_head_dim));
  }
  return params;
}

}  // namespace

Result<Model> load_llama(std::shared_ptr<const gguf::File> file) {
  const Keys keys(file->metadata(), "llama");
  T9_TRY(params, read_params(keys));
  T9_TRY(vocabulary, read_vocabulary(*file, keys));
  T9_TRY(base, keys.find_positive("rope.freq_base", 10000.0));
  T9_TRY(scaling, read_rope_scaling(keys, params.context_length));

  Builder b;
  TensorBinder bind(*file, b);
  const Embeddings embeddings = bind_embeddings(bind, vocabulary, params.n_embd);
  const Weight output_norm = bind.vector("output_norm.weight", params.n_embd);
  const std::vector<float> rope_freqs = bind.find_positive_values("rope_freqs.weight", params.n_rot / 2);
  std::vector<Layer> layers;
  for (size_t i = 0; i < params.layers.size(); ++i) layers.push_back(bind_layer(bind, params, i));
  T9_TRY_VOID(bind.status());
  T9_TRY(rope, make_rope({.base = base,
                          .n_rot = params.n_rot,
                          .head_dim = params.k_head_dim,
                          .pairs = tensor::RopePairs::kInterleaved,
                          .scaling = scaling,
                          .divisors = rope_freqs}));

  Node x = b.embed("embd", embeddings.table, 1.0f);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& w = layers[i];
    b.set_prefix(fmt::format("blk.{}.", i));
    Node attn = attend(b, w, params, i, rope, x);
    if (i + 1 == layers.size()) {  // nothing after the last attention needs the other rows
      attn = b.select_outputs("attn_selected", attn);
      x = b.select_outputs("x_selected", x);
    }
    x = b.add("attn_residual", x, b.matmul("attn_output", attn, w.attn_output, w.attn_output_bias));
    x = b.add("out", x, feed_forward(b, w, params, x));
  }
  b.set_prefix("");
  const Node last = b.rms_norm("output_norm", x, output_norm, params.rms_eps);
  const Node logits = b.matmul("logits", last, embeddings.head);
  return make_model(std::move(file), params, bind, std::move(b).finish(logits));
}

}  // namespace tempo9::models
