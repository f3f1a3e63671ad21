// qwen3, qwen3moe, qwen3vl, qwen3vlmoe: the Qwen3 models, dense or with experts, for text or for images too. As llama,
// with each head of q and k normalised before rope, rope over halves of the head, no biases, and a head size of its own
// (spec models section 6).
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

constexpr tensor::Activation kActivation = tensor::Activation::kSilu;

// What tells the four architectures apart.
struct Variant {
  std::string_view name;
  bool has_experts = false;
  bool sees_images = false;
};

struct Params {
  DecoderParams common;
  ExpertParams experts;
  Builder::RopeSpec rope;
  int64_t n_deepstack = 0;  // leading layers that add a part of their own of an image row's embedding
};

Result<ExpertParams> read_experts(const Keys& keys, const DecoderParams& common, const Variant& variant) {
  if (!variant.has_experts) {
    T9_TRY_VOID(refuse_experts(keys));
    return ExpertParams{};
  }
  T9_TRY_VOID(keys.read_count("expert_count"));
  return read_expert_params(keys, common, ExpertWidth::kFeedForwardPerUsed);
}

Result<Builder::RopeSpec> read_rope(const Keys& keys, const DecoderParams& common, const Variant& variant) {
  T9_TRY(rope, read_rope_params(keys, common, tensor::RopePairs::kHalves));
  if (variant.sees_images) {
    T9_TRY(axes, read_rope_axes(keys, common.n_rot, RopeSections::kInterleaved));
    rope.axes = std::move(axes);
  }
  return make_rope(rope);
}

Result<Params> read_params(const Keys& keys, const Variant& variant) {
  T9_TRY(common, read_decoder_params(keys, {.needs_feed_forward = !variant.has_experts}));
  T9_TRY(experts, read_experts(keys, common, variant));
  T9_TRY(rope, read_rope(keys, common, variant));
  Params params{.common = std::move(common), .experts = experts, .rope = std::move(rope)};
  if (variant.sees_images) {
    T9_TRY(n_deepstack, keys.find_count("n_deepstack_layers", 0, params.common.n_layers()));
    params.n_deepstack = n_deepstack;
  }
  return params;
}

struct Layer {
  Weight attn_norm;
  AttentionWeights attn;
  Weight ffn_norm;
  FeedForwardWeights ffn;  // one of the two
  ExpertWeights experts;
};

Layer bind_layer(TensorBinder& bind, const Params& params, size_t index) {
  const DecoderParams& common = params.common;
  const int64_t d = common.n_embd;
  const std::string blk = fmt::format("blk.{}.", index);
  Layer layer;
  layer.attn_norm = bind.vector(blk + "attn_norm.weight", d);
  layer.attn = bind_attention(bind, blk, d, common.heads(index), {.head_norms = Presence::kAlways});
  layer.ffn_norm = bind.vector(blk + "ffn_norm.weight", d);
  if (params.experts) {
    layer.experts = bind_experts(bind, blk, d, params.experts);
  } else {
    layer.ffn = bind_feed_forward(bind, blk, d, common.layers[index].n_ff);
  }
  return layer;
}

Node attention_branch(Builder& b, const Layer& w, const Params& params, size_t index, Node x) {
  const HeadShape shape = params.common.heads(index);
  const float eps = params.common.rms_eps;
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, eps);
  Heads heads = normalise_heads(b, w.attn, project_heads(b, w.attn, h), shape, eps);
  heads = rotate_heads(b, heads, params.rope);
  return attend(b, heads, shape, {.scale = head_scale(shape)});
}

Node ffn_branch(Builder& b, const Layer& w, const Params& params, Node x) {
  const Node h = b.rms_norm("ffn_norm", x, w.ffn_norm, params.common.rms_eps);
  return params.experts ? mix_experts(b, w.experts, params.experts, kActivation, h)
                        : feed_forward(b, w.ffn, kActivation, h);
}

Result<Model> load(std::shared_ptr<const gguf::File> file, const Variant& variant) {
  const Keys keys(file->metadata(), variant.name);
  T9_TRY(params, read_params(keys, variant));
  const DecoderParams& common = params.common;
  T9_TRY(vocabulary, read_vocabulary(*file, keys));

  Builder b;
  TensorBinder bind(*file, b);
  const Embeddings embeddings = bind_embeddings(bind, vocabulary, common.n_embd);
  const Weight output_norm = bind.vector("output_norm.weight", common.n_embd);
  std::vector<Layer> layers;
  for (size_t i = 0; i < common.layers.size(); ++i) layers.push_back(bind_layer(bind, params, i));
  T9_TRY_VOID(bind.status());

  Node x = b.embed("embd", embeddings.table, 1.0f);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& w = layers[i];
    b.set_prefix(fmt::format("blk.{}.", i));
    Node attn = attention_branch(b, w, params, i, x);
    const bool adds_embedding = static_cast<int64_t>(i) < params.n_deepstack;
    if (i + 1 == layers.size() && !adds_embedding) {  // nothing after the last attention needs the other rows
      attn = b.select_outputs("attn_selected", attn);
      x = b.select_outputs("x_selected", x);
    }
    x = b.add("attn_residual", x, b.matmul("attn_output", attn, w.attn.output));
    x = b.add("out", x, ffn_branch(b, w, params, x));
    if (adds_embedding) x = b.add_embedding("deepstack", x, static_cast<int64_t>(i + 1) * common.n_embd);
  }
  b.set_prefix("");
  if (params.n_deepstack == common.n_layers()) x = b.select_outputs("x_selected", x);
  const Node last = b.rms_norm("output_norm", x, output_norm, common.rms_eps);
  const Node logits = b.matmul("logits", last, embeddings.head);
  return make_model(std::move(file), common, bind, std::move(b).finish(logits));
}

}  // namespace

Result<Model> load_qwen3(std::shared_ptr<const gguf::File> file) { return load(std::move(file), {.name = "qwen3"}); }
Result<Model> load_qwen3moe(std::shared_ptr<const gguf::File> file) {
  return load(std::move(file), {.name = "qwen3moe", .has_experts = true});
}
Result<Model> load_qwen3vl(std::shared_ptr<const gguf::File> file) {
  return load(std::move(file), {.name = "qwen3vl", .sees_images = true});
}
Result<Model> load_qwen3vlmoe(std::shared_ptr<const gguf::File> file) {
  return load(std::move(file), {.name = "qwen3vlmoe", .has_experts = true, .sees_images = true});
}

}  // namespace tempo9::models
