// gpt-oss: mixtures of experts with biases everywhere, attention sinks, layers that alternate between a sliding window
// and all tokens, rope over halves of the head with yarn (spec models section 10).
#include <fmt/format.h>

#include "models/experts.h"
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
  ExpertParams experts;
  int64_t window = 0;
  std::vector<bool> is_sliding;  // per layer
  Builder::RopeSpec sliding_rope;
  Builder::RopeSpec full_rope;
};

Result<Params> read_params(const Keys& keys) {
  T9_TRY(common, read_decoder_params(keys, {.needs_feed_forward = false, .needs_head_dims = true}));
  T9_TRY_VOID(keys.read_count("expert_count"));
  T9_TRY(experts, read_expert_params(keys, common, ExpertWidth::kRequired));
  T9_TRY(window, keys.read_count("attention.sliding_window", int64_t{1} << 31));
  T9_TRY(is_sliding, read_sliding_layers(keys, common.n_layers(), 2));
  T9_TRY(rope, read_rope_params(keys, common, tensor::RopePairs::kHalves));
  rope.scaling.whole_pairs = false;  // the original model does not round, and no key says so
  T9_TRY(full_rope, make_rope(rope));
  T9_TRY(sliding_base, keys.find_positive("rope.freq_base_swa", rope.base));
  rope.base = sliding_base;
  T9_TRY(sliding_rope, make_rope(rope));
  return Params{.common = std::move(common),
                .experts = experts,
                .window = window,
                .is_sliding = std::move(is_sliding),
                .sliding_rope = std::move(sliding_rope),
                .full_rope = std::move(full_rope)};
}

struct Layer {
  Weight attn_norm;
  AttentionWeights attn;
  Weight sinks;
  Weight post_attention_norm;
  ExpertWeights experts;
};

Layer bind_layer(TensorBinder& bind, const Params& params, size_t index) {
  const int64_t d = params.common.n_embd;
  const HeadShape heads = params.common.heads(index);
  const std::string blk = fmt::format("blk.{}.", index);
  return {
      .attn_norm = bind.vector(blk + "attn_norm.weight", d),
      .attn = bind_attention(bind, blk, d, heads, {.qkv_bias = Presence::kAlways, .output_bias = Presence::kAlways}),
      .sinks = bind.vector(blk + "attn_sinks.weight", heads.n_heads),
      .post_attention_norm = bind.vector(blk + "post_attention_norm.weight", d),
      .experts = bind_experts(bind, blk, d, params.experts, /*has_biases=*/true),
  };
}

Node attention_branch(Builder& b, const Layer& w, const Params& params, size_t index, Node x) {
  const HeadShape shape = params.common.heads(index);
  const bool is_sliding = params.is_sliding[index];
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, params.common.rms_eps);
  const Heads heads = rotate_heads(b, project_heads(b, w.attn, h), is_sliding ? params.sliding_rope : params.full_rope);
  return attend(b, heads, shape,
                {.scale = head_scale(shape), .window = is_sliding ? params.window : 0, .sinks = w.sinks});
}

Node ffn_branch(Builder& b, const Layer& w, const Params& params, Node x) {
  const Node h = b.rms_norm("ffn_norm", x, w.post_attention_norm, params.common.rms_eps);
  return mix_experts(b, w.experts, params.experts, tensor::Activation::kClampedSwiglu, h);
}

}  // namespace

Result<Model> load_gpt_oss(std::shared_ptr<const gguf::File> file) {
  const Keys keys(file->metadata(), "gpt-oss");
  T9_TRY(params, read_params(keys));
  const DecoderParams& common = params.common;
  T9_TRY(vocabulary, read_vocabulary(*file, keys));

  Builder b;
  TensorBinder bind(*file, b);
  const Weight table = bind.matrix("token_embd.weight", common.n_embd, vocabulary.n_embeddings);
  const Weight head = bind.matrix("output.weight", common.n_embd, vocabulary.n_logits);  // never tied
  const Weight output_norm = bind.vector("output_norm.weight", common.n_embd);
  std::vector<Layer> layers;
  for (size_t i = 0; i < common.layers.size(); ++i) layers.push_back(bind_layer(bind, params, i));
  T9_TRY_VOID(bind.status());

  Node x = b.embed("embd", table, 1.0f);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& w = layers[i];
    b.set_prefix(fmt::format("blk.{}.", i));
    Node attn = attention_branch(b, w, params, i, x);
    if (i + 1 == layers.size()) {  // nothing after the last attention needs the other rows
      attn = b.select_outputs("attn_selected", attn);
      x = b.select_outputs("x_selected", x);
    }
    x = b.add("attn_residual", x, b.matmul("attn_output", attn, w.attn.output, w.attn.output_bias));
    x = b.add("out", x, ffn_branch(b, w, params, x));
  }
  b.set_prefix("");
  const Node last = b.rms_norm("output_norm", x, output_norm, common.rms_eps);
  return make_model(std::move(file), common, bind, std::move(b).finish(b.matmul("logits", last, head)));
}

}  // namespace tempo9::models
