// qwen2, qwen2vl: Qwen2 and Qwen2.5, for text or for images too. As llama, with biases on q, k and v and rope over
// halves of the head (spec models section 5).
#include <fmt/format.h>

#include "models/layers.h"
#include "models/list.h"
#include "models/rope.h"
#include "models/tensors.h"

namespace tempo9::models {
namespace {

using graph::Builder;
using graph::Node;
using graph::Weight;

struct Variant {
  std::string_view name;
  bool sees_images = false;
};

Result<Builder::RopeSpec> read_rope(const Keys& keys, const DecoderParams& params, const Variant& variant) {
  T9_TRY(rope, read_rope_params(keys, params, tensor::RopePairs::kHalves));
  if (variant.sees_images) {
    T9_TRY(axes, read_rope_axes(keys, params.n_rot, RopeSections::kContiguous));
    rope.axes = std::move(axes);
  }
  return make_rope(rope);
}

struct Layer {
  Weight attn_norm;
  AttentionWeights attn;
  Weight ffn_norm;
  FeedForwardWeights ffn;
};

Layer bind_layer(TensorBinder& bind, const DecoderParams& params, size_t index) {
  const int64_t d = params.n_embd;
  const std::string blk = fmt::format("blk.{}.", index);
  return {
      .attn_norm = bind.vector(blk + "attn_norm.weight", d),
      .attn = bind_attention(bind, blk, d, params.heads(index), {.qkv_bias = Presence::kAlways}),
      .ffn_norm = bind.vector(blk + "ffn_norm.weight", d),
      .ffn = bind_feed_forward(bind, blk, d, params.layers[index].n_ff),
  };
}

Node attention_branch(Builder& b, const Layer& w, const DecoderParams& params, size_t index,
                      const Builder::RopeSpec& rope, Node x) {
  const HeadShape shape = params.heads(index);
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, params.rms_eps);
  const Heads heads = rotate_heads(b, project_heads(b, w.attn, h), rope);
  return attend(b, heads, shape, {.scale = head_scale(shape)});
}

Node ffn_branch(Builder& b, const Layer& w, const DecoderParams& params, Node x) {
  const Node h = b.rms_norm("ffn_norm", x, w.ffn_norm, params.rms_eps);
  return feed_forward(b, w.ffn, tensor::Activation::kSilu, h);
}

Result<Model> load(std::shared_ptr<const gguf::File> file, const Variant& variant) {
  const Keys keys(file->metadata(), variant.name);
  T9_TRY_VOID(refuse_experts(keys));
  T9_TRY(params, read_decoder_params(keys));
  T9_TRY(rope, read_rope(keys, params, variant));
  T9_TRY(vocabulary, read_vocabulary(*file, keys));

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
    Node attn = attention_branch(b, w, params, i, rope, x);
    if (i + 1 == layers.size()) {  // nothing after the last attention needs the other rows
      attn = b.select_outputs("attn_selected", attn);
      x = b.select_outputs("x_selected", x);
    }
    x = b.add("attn_residual", x, b.matmul("attn_output", attn, w.attn.output));
    x = b.add("out", x, ffn_branch(b, w, params, x));
  }
  b.set_prefix("");
  const Node last = b.rms_norm("output_norm", x, output_norm, params.rms_eps);
  const Node logits = b.matmul("logits", last, embeddings.head);
  return make_model(std::move(file), params, bind, std::move(b).finish(logits));
}

}  // namespace

Result<Model> load_qwen2(std::shared_ptr<const gguf::File> file) { return load(std::move(file), {.name = "qwen2"}); }
Result<Model> load_qwen2vl(std::shared_ptr<const gguf::File> file) {
  return load(std::move(file), {.name = "qwen2vl", .sees_images = true});
}

}  // namespace tempo9::models
