// gemma3: norms before and after each branch, normalised heads, GeGLU, and layers that alternate between a sliding
// window and all tokens, each kind with a rope base of its own (spec models section 8). Norm weights come with the
// family's "+ 1" folded in.
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

struct Params {
  DecoderParams common;
  int64_t window = 0;
  std::vector<bool> is_sliding;  // per layer
  float attention_scale = 0.0f;
  float final_softcap = 0.0f;  // 0: none
  Builder::RopeSpec sliding_rope;
  Builder::RopeSpec full_rope;
};

// The pattern is stored as a period, whose last layer is a full one, or as a flag per layer.
Result<std::vector<bool>> read_sliding_layers(const Keys& keys, int64_t n_layers) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const gguf::MetaValue* stored = keys.metadata().find(keys.full_name(kKey));
  if (stored && std::holds_alternative<gguf::Array>(*stored)) {
    T9_TRY(flags, keys.metadata().read_bools(keys.full_name(kKey)));
    if (static_cast<int64_t>(flags.size()) == n_layers) return flags;
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} has {} elements, the model has {} layers",
                                                      keys.full_name(kKey), flags.size(), n_layers));
  }
  int64_t period = 6;
  if (stored) {
    T9_TRY(stored_period, keys.read_count(kKey));
    period = stored_period;
  }
  std::vector<bool> flags;
  for (int64_t i = 0; i < n_layers; ++i) flags.push_back((i + 1) % period != 0);
  return flags;
}

// 1 / sqrt(head size), but for the 27B, which is the one with 62 layers: it divides the width by the heads.
float attention_scale(const DecoderParams& params) {
  constexpr int64_t kLayersOf27B = 62;
  const double width = params.n_layers() == kLayersOf27B
                           ? static_cast<double>(params.n_embd) / static_cast<double>(params.layers[0].n_heads)
                           : static_cast<double>(params.k_head_dim);
  return static_cast<float>(1.0 / std::sqrt(width));
}

Result<Params> read_params(const Keys& keys) {
  T9_TRY_VOID(refuse_experts(keys));
  T9_TRY(common, read_decoder_params(keys));
  T9_TRY(window, keys.read_count("attention.sliding_window", int64_t{1} << 31));
  T9_TRY(is_sliding, read_sliding_layers(keys, common.n_layers()));
  T9_TRY(full_base, keys.find_positive("rope.freq_base", 10000.0));
  T9_TRY(older_sliding_base, keys.find_positive("rope.local.freq_base", 10000.0));
  T9_TRY(sliding_base, keys.find_positive("rope.freq_base_swa", older_sliding_base));
  T9_TRY(scaling, read_rope_scaling(keys, common.context_length));
  T9_TRY(final_softcap, keys.find_finite("final_logit_softcapping", 0.0));
  if (final_softcap < 0.0) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is {}, must be 0 or more",
                                                      keys.full_name("final_logit_softcapping"), final_softcap));
  }
  RopeParams rope{
      .base = sliding_base, .n_rot = common.n_rot, .head_dim = common.k_head_dim, .pairs = tensor::RopePairs::kHalves};
  T9_TRY(sliding_rope, make_rope(rope));
  rope.base = full_base;
  rope.scaling = scaling;
  T9_TRY(full_rope, make_rope(rope));
  const float scale = attention_scale(common);
  return Params{.common = std::move(common),
                .window = window,
                .is_sliding = std::move(is_sliding),
                .attention_scale = scale,
                .final_softcap = static_cast<float>(final_softcap),
                .sliding_rope = std::move(sliding_rope),
                .full_rope = std::move(full_rope)};
}

struct Layer {
  Weight attn_norm;
  Weight attn_q, attn_k, attn_v, attn_output;
  Weight attn_q_norm, attn_k_norm, post_attention_norm;
  Weight ffn_norm;
  Weight ffn_gate, ffn_up, ffn_down;
  Weight post_ffw_norm;
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
      .post_attention_norm = bind.vector(blk + "post_attention_norm.weight", d),
      .ffn_norm = bind.vector(blk + "ffn_norm.weight", d),
      .ffn_gate = bind.matrix(blk + "ffn_gate.weight", d, dims.n_ff),
      .ffn_up = bind.matrix(blk + "ffn_up.weight", d, dims.n_ff),
      .ffn_down = bind.matrix(blk + "ffn_down.weight", dims.n_ff, d),
      .post_ffw_norm = bind.vector(blk + "post_ffw_norm.weight", d),
  };
}

Node attend(Builder& b, const Layer& w, const Params& params, size_t index, Node x) {
  const DecoderParams& common = params.common;
  const DecoderParams::Layer& dims = common.layers[index];
  const bool is_sliding = params.is_sliding[index];
  const Builder::RopeSpec& rope = is_sliding ? params.sliding_rope : params.full_rope;
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, common.rms_eps);
  Node q = b.matmul("q", h, w.attn_q);
  Node k = b.matmul("k", h, w.attn_k);
  const Node v = b.matmul("v", h, w.attn_v);
  q = b.rms_norm("q_norm", q, w.attn_q_norm, common.rms_eps, common.k_head_dim);
  k = b.rms_norm("k_norm", k, w.attn_k_norm, common.rms_eps, common.k_head_dim);
  q = b.rope("q_rope", q, rope);
  k = b.rope("k_rope", k, rope);
  const int32_t kv_layer = b.add_kv_layer({.n_kv_heads = dims.n_kv_heads,
                                           .k_head_dim = common.k_head_dim,
                                           .v_head_dim = common.v_head_dim,
                                           .window = is_sliding ? params.window : 0});
  return b.attention("attn", q, k, v, {.kv_layer = kv_layer, .n_heads = dims.n_heads, .scale = params.attention_scale});
}

Node feed_forward(Builder& b, const Layer& w, const DecoderParams& params, Node x) {
  const Node h = b.rms_norm("ffn_norm", x, w.ffn_norm, params.rms_eps);
  const Node gate = b.matmul("ffn_gate", h, w.ffn_gate);
  const Node up = b.matmul("ffn_up", h, w.ffn_up);
  const Node gated = b.gated_activation("ffn_gated", gate, up, tensor::Activation::kGeluTanh);
  return b.rms_norm("ffn_post_norm", b.matmul("ffn_down", gated, w.ffn_down), w.post_ffw_norm, params.rms_eps);
}

}  // namespace

Result<Model> load_gemma3(std::shared_ptr<const gguf::File> file) {
  const Keys keys(file->metadata(), "gemma3");
  T9_TRY(params, read_params(keys));
  const DecoderParams& common = params.common;
  T9_TRY(vocabulary, read_vocabulary(*file, keys));

  Builder b;
  TensorBinder bind(*file, b);
  const Embeddings embeddings = bind_embeddings(bind, vocabulary, common.n_embd);
  const Weight output_norm = bind.vector("output_norm.weight", common.n_embd);
  std::vector<Layer> layers;
  for (size_t i = 0; i < common.layers.size(); ++i) layers.push_back(bind_layer(bind, common, i));
  T9_TRY_VOID(bind.status());

  Node x = b.embed("embd", embeddings.table, static_cast<float>(std::sqrt(static_cast<double>(common.n_embd))));
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& w = layers[i];
    b.set_prefix(fmt::format("blk.{}.", i));
    Node attn = attend(b, w, params, i, x);
    if (i + 1 == layers.size()) {  // nothing after the last attention needs the other rows
      attn = b.select_outputs("attn_selected", attn);
      x = b.select_outputs("x_selected", x);
    }
    attn = b.matmul("attn_output", attn, w.attn_output);
    x = b.add("attn_residual", x, b.rms_norm("attn_post_norm", attn, w.post_attention_norm, common.rms_eps));
    x = b.add("out", x, feed_forward(b, w, common, x));
  }
  b.set_prefix("");
  const Node last = b.rms_norm("output_norm", x, output_norm, common.rms_eps);
  Node logits = b.matmul("logits", last, embeddings.head);
  if (params.final_softcap > 0.0f) logits = b.soft_cap("logits_capped", logits, params.final_softcap);
  return make_model(std::move(file), common, bind, std::move(b).finish(logits));
}

}  // namespace tempo9::models
