// gemma3: norms before and after each branch, normalised heads, GeGLU, and layers that alternate between a sliding
// window and all tokens, each kind with a rope base of its own (spec models section 8). Norm weights come with the
// family's "+ 1" folded in.
#include <fmt/format.h>

#include <cmath>

#include "models/layers.h"
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
  T9_TRY(is_sliding, read_sliding_layers(keys, common.n_layers(), 6));
  T9_TRY(older_sliding_base, keys.find_positive("rope.local.freq_base", 10000.0));
  T9_TRY(sliding_base, keys.find_positive("rope.freq_base_swa", older_sliding_base));
  T9_TRY(final_softcap, keys.find_non_negative("final_logit_softcapping", 0.0));
  T9_TRY(rope, read_rope_params(keys, common, tensor::RopePairs::kHalves));
  T9_TRY(full_rope, make_rope(rope));
  rope.base = sliding_base;
  rope.scaling = {};
  T9_TRY(sliding_rope, make_rope(rope));
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
  AttentionWeights attn;
  Weight post_attention_norm;
  Weight ffn_norm;
  FeedForwardWeights ffn;
  Weight post_ffw_norm;
};

Layer bind_layer(TensorBinder& bind, const DecoderParams& params, size_t index) {
  const int64_t d = params.n_embd;
  const std::string blk = fmt::format("blk.{}.", index);
  return {
      .attn_norm = bind.vector(blk + "attn_norm.weight", d),
      .attn = bind_attention(bind, blk, d, params.heads(index), {.head_norms = Presence::kAlways}),
      .post_attention_norm = bind.vector(blk + "post_attention_norm.weight", d),
      .ffn_norm = bind.vector(blk + "ffn_norm.weight", d),
      .ffn = bind_feed_forward(bind, blk, d, params.layers[index].n_ff),
      .post_ffw_norm = bind.vector(blk + "post_ffw_norm.weight", d),
  };
}

Node attention_branch(Builder& b, const Layer& w, const Params& params, size_t index, Node x) {
  const HeadShape shape = params.common.heads(index);
  const float eps = params.common.rms_eps;
  const bool is_sliding = params.is_sliding[index];
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, eps);
  Heads heads = normalise_heads(b, w.attn, project_heads(b, w.attn, h), shape, eps);
  heads = rotate_heads(b, heads, is_sliding ? params.sliding_rope : params.full_rope);
  return attend(b, heads, shape, {.scale = params.attention_scale, .window = is_sliding ? params.window : 0});
}

Node ffn_branch(Builder& b, const Layer& w, const DecoderParams& params, Node x) {
  const Node h = b.rms_norm("ffn_norm", x, w.ffn_norm, params.rms_eps);
  const Node down = feed_forward(b, w.ffn, tensor::Activation::kGeluTanh, h);
  return b.rms_norm("ffn_post_norm", down, w.post_ffw_norm, params.rms_eps);
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
    Node attn = attention_branch(b, w, params, i, x);
    if (i + 1 == layers.size()) {  // nothing after the last attention needs the other rows
      attn = b.select_outputs("attn_selected", attn);
      x = b.select_outputs("x_selected", x);
    }
    attn = b.matmul("attn_output", attn, w.attn.output);
    x = b.add("attn_residual", x, b.rms_norm("attn_post_norm", attn, w.post_attention_norm, common.rms_eps));
    x = b.add("out", x, ffn_branch(b, w, common, x));
  }
  b.set_prefix("");
  const Node last = b.rms_norm("output_norm", x, output_norm, common.rms_eps);
  Node logits = b.matmul("logits", last, embeddings.head);
  if (params.final_softcap > 0.0f) logits = b.soft_cap("logits_capped", logits, params.final_softcap);
  T9_TRY(model, make_model(std::move(file), common, bind, std::move(b).finish(logits)));
  model.info.sees_whole_images = true;
  return model;
}

}  // namespace tempo9::models
