// llama: Llama 1 to 3, Mistral 7B, TinyLlama, SmolLM2, Mixtral. Pre-norm decoder, RMS norm, rotary positions over
// interleaved pairs (the converter permuted the rows of q and k for that), SwiGLU (spec models section 3).
// mistral3: Ministral 3, which is llama with queries that grow with the position (spec models section 4).
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

struct Params {
  DecoderParams common;
  ExpertParams experts;  // Mixtral
  RopeParams rope;
  // Ministral: queries are multiplied by 1 + growth * ln(1 + floor(position / period)). 0: they are not.
  float temperature_growth = 0.0f;
  int64_t temperature_period = 0;
};

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
  layer.attn = bind_attention(bind, blk, d, common.heads(index),
                              {.qkv_bias = Presence::kOptional, .output_bias = Presence::kOptional});
  layer.ffn_norm = bind.vector(blk + "ffn_norm.weight", d);
  if (params.experts) {
    layer.experts = bind_experts(bind, blk, d, params.experts);
  } else {
    layer.ffn = bind_feed_forward(bind, blk, d, common.layers[index].n_ff, Presence::kOptional);
  }
  return layer;
}

Node attention_branch(Builder& b, const Layer& w, const Params& params, size_t index, const Builder::RopeSpec& rope,
                      Node x) {
  const HeadShape shape = params.common.heads(index);
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, params.common.rms_eps);
  Heads heads = rotate_heads(b, project_heads(b, w.attn, h), rope);
  if (params.temperature_growth > 0.0f) {
    heads.q = b.position_scale("q_scaled", heads.q, params.temperature_growth, params.temperature_period);
  }
  return attend(b, heads, shape, {.scale = head_scale(shape)});
}

Node ffn_branch(Builder& b, const Layer& w, const Params& params, Node x) {
  const Node h = b.rms_norm("ffn_norm", x, w.ffn_norm, params.common.rms_eps);
  return params.experts ? mix_experts(b, w.experts, params.experts, kActivation, h)
                        : feed_forward(b, w.ffn, kActivation, h);
}

Result<Params> read_params(const Keys& keys) {
  T9_TRY(common, read_decoder_params(keys));
  if (common.n_rot != common.k_head_dim) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} is {}, must equal the head size {}", keys.full_name("rope.dimension_count"),
                            common.n_rot, common.k_head_dim));
  }
  T9_TRY(experts, read_expert_params(keys, common, ExpertWidth::kFeedForward));
  T9_TRY(rope, read_rope_params(keys, common, tensor::RopePairs::kInterleaved));
  T9_TRY(growth, keys.find_non_negative("attention.temperature_scale", 0.0));
  const auto period = static_cast<int64_t>(rope.scaling.original_context);
  return Params{.common = std::move(common),
                .experts = experts,
                .rope = std::move(rope),
                .temperature_growth = static_cast<float>(growth),
                .temperature_period = period};
}

Result<Model> load(std::shared_ptr<const gguf::File> file, std::string_view architecture) {
  const Keys keys(file->metadata(), architecture);
  T9_TRY(params, read_params(keys));
  const DecoderParams& common = params.common;
  T9_TRY(vocabulary, read_vocabulary(*file, keys));

  Builder b;
  TensorBinder bind(*file, b);
  const Embeddings embeddings = bind_embeddings(bind, vocabulary, common.n_embd);
  const Weight output_norm = bind.vector("output_norm.weight", common.n_embd);
  const std::vector<float> rope_freqs = bind.find_positive_values("rope_freqs.weight", common.n_rot / 2);
  std::vector<Layer> layers;
  for (size_t i = 0; i < common.layers.size(); ++i) layers.push_back(bind_layer(bind, params, i));
  T9_TRY_VOID(bind.status());
  params.rope.divisors = rope_freqs;
  T9_TRY(rope, make_rope(params.rope));

  Node x = b.embed("embd", embeddings.table, 1.0f);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& w = layers[i];
    b.set_prefix(fmt::format("blk.{}.", i));
    Node attn = attention_branch(b, w, params, i, rope, x);
    if (i + 1 == layers.size()) {  // nothing after the last attention needs the other rows
      attn = b.select_outputs("attn_selected", attn);
      x = b.select_outputs("x_selected", x);
    }
    x = b.add("attn_residual", x, b.matmul("attn_output", attn, w.attn.output, w.attn.output_bias));
    x = b.add("out", x, ffn_branch(b, w, params, x));
  }
  b.set_prefix("");
  const Node last = b.rms_norm("output_norm", x, output_norm, common.rms_eps);
  const Node logits = b.matmul("logits", last, embeddings.head);
  return make_model(std::move(file), common, bind, std::move(b).finish(logits));
}

}  // namespace

Result<Model> load_llama(std::shared_ptr<const gguf::File> file) { return load(std::move(file), "llama"); }
Result<Model> load_mistral3(std::shared_ptr<const gguf::File> file) { return load(std::move(file), "mistral3"); }

}  // namespace tempo9::models
