// gemma4: Gemma 4, dense, with per-layer embeddings (E2B, E4B) or with experts beside the dense feed-forward (26B-A4B).
// Norms before and after each branch, GeGLU, and layers that alternate between a sliding window and all tokens, each
// kind with a rope and a head size of its own (spec models section 9).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

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

constexpr tensor::Activation kActivation = tensor::Activation::kGeluTanh;
constexpr std::string_view kRopeDivisors = "rope_freqs.weight";

struct Params {
  DecoderParams common;  // its head sizes and rotated elements are those of full layers
  int64_t sliding_head_dim = 0;
  int64_t window = 0;
  std::vector<bool> is_sliding;     // per layer
  std::vector<int32_t> kv_sources;  // per layer: the layer whose K and V it attends to; its own index if it has some
  int64_t n_per_layer_embd = 0;     // width of the per-layer embeddings; 0: none
  ExpertParams experts;
  float final_softcap = 0.0f;  // 0: none
  RopeParams sliding_rope;
  RopeParams full_rope;  // without the divisors, which are a tensor

  bool has_kv(size_t layer) const { return kv_sources[layer] == static_cast<int32_t>(layer); }
  HeadShape heads(size_t layer) const {
    HeadShape shape = common.heads(layer);
    if (is_sliding[layer]) shape.k_head_dim = shape.v_head_dim = sliding_head_dim;
    return shape;
  }
};

// The one size of the heads of K and V in layers of a kind.
Result<int64_t> read_head_dim(const Keys& keys, std::string_view k_key, std::string_view v_key) {
  T9_TRY(k_head_dim, keys.read_count(k_key));
  T9_TRY(v_head_dim, keys.read_count(v_key));
  if (k_head_dim == v_head_dim) return k_head_dim;
  return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is {}, {} is {}: must be equal", keys.full_name(k_key),
                                                    k_head_dim, keys.full_name(v_key), v_head_dim));
}

// The last layers have no K and V of their own: each attends to those of the last layer of its kind that has some.
Result<std::vector<int32_t>> read_kv_sources(const Keys& keys, const std::vector<bool>& is_sliding) {
  constexpr std::string_view kKey = "attention.shared_kv_layers";
  const int64_t n_layers = std::ssize(is_sliding);
  T9_TRY(n_shared, keys.find_count(kKey, 0, n_layers));
  std::vector<int32_t> sources;
  int32_t last_of_kind[2] = {-1, -1};
  for (int32_t i = 0; i < n_layers; ++i) {
    int32_t& last = last_of_kind[is_sliding[static_cast<size_t>(i)] ? 1 : 0];
    if (i < n_layers - n_shared) last = i;
    if (last < 0) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("metadata {} is {}: no layer of the kind of layer {} is left to share with",
                              keys.full_name(kKey), n_shared, i));
    }
    sources.push_back(last);
  }
  return sources;
}

Result<RopeParams> read_sliding_rope(const Keys& keys, int64_t head_dim, double full_base) {
  constexpr std::string_view kKey = "rope.dimension_count_swa";
  T9_TRY(base, keys.find_positive("rope.freq_base_swa", full_base));
  T9_TRY(n_rot, keys.find_count(kKey, head_dim));
  if (n_rot < 2 || n_rot > head_dim || n_rot % 2 != 0) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is {}, must be even and at most the head size {}",
                                                      keys.full_name(kKey), n_rot, head_dim));
  }
  return RopeParams{.base = base, .n_rot = n_rot, .head_dim = head_dim, .pairs = tensor::RopePairs::kHalves};
}

Result<Params> read_params(const Keys& keys) {
  T9_TRY_VOID(read_head_dim(keys, "attention.key_length", "attention.value_length"));
  T9_TRY(common, read_decoder_params(keys));
  T9_TRY(sliding_head_dim, read_head_dim(keys, "attention.key_length_swa", "attention.value_length_swa"));
  T9_TRY(window, keys.read_count("attention.sliding_window", int64_t{1} << 31));
  T9_TRY(is_sliding, read_sliding_layers(keys, common.n_layers(), std::nullopt));
  T9_TRY(kv_sources, read_kv_sources(keys, is_sliding));
  T9_TRY(n_per_layer_embd, keys.find_count("embedding_length_per_layer_input", 0));
  T9_TRY(experts, read_expert_params(keys, common, ExpertWidth::kRequired));
  T9_TRY(final_softcap, keys.find_non_negative("final_logit_softcapping", 30.0));
  T9_TRY(full_rope, read_rope_params(keys, common, tensor::RopePairs::kHalves));
  T9_TRY(sliding_rope, read_sliding_rope(keys, sliding_head_dim, full_rope.base));
  return Params{.common = std::move(common),
                .sliding_head_dim = sliding_head_dim,
                .window = window,
                .is_sliding = std::move(is_sliding),
                .kv_sources = std::move(kv_sources),
                .n_per_layer_embd = n_per_layer_embd,
                .experts = experts,
                .final_softcap = static_cast<float>(final_softcap),
                .sliding_rope = std::move(sliding_rope),
                .full_rope = std::move(full_rope)};
}

// The experts of a layer beside its dense feed-forward.
struct MixtureWeights {
  ExpertWeights experts;
  Weight router_scale;  // of each column of the router's input
  Weight expert_scale;  // of each expert's output, may be absent
  Weight pre_norm, post_norm;
  Weight dense_post_norm;
};

struct Layer {
  Weight attn_norm;
  AttentionWeights attn;  // k, v and k_norm are empty where K and V are another layer's
  Weight post_attention_norm;
  Weight ffn_norm;
  FeedForwardWeights ffn;
  std::optional<MixtureWeights> mixture;
  Weight post_ffw_norm;
  Weight per_layer_gate, per_layer_proj, per_layer_norm;
  Weight output_scale;  // may be absent
};

// Full layers may have no V matrix: K before norm and rope then serves as V, too.
AttentionWeights bind_heads(TensorBinder& bind, const Params& params, size_t index, const std::string& blk) {
  const HeadShape shape = params.heads(index);
  const int64_t d = params.common.n_embd;
  AttentionWeights w;
  w.q = bind.matrix(blk + "attn_q.weight", d, shape.q_cols());
  w.q_norm = bind.vector(blk + "attn_q_norm.weight", shape.k_head_dim);
  w.output = bind.matrix(blk + "attn_output.weight", shape.out_cols(), d);
  if (!params.has_kv(index)) {
    for (const char* unused : {"attn_k.weight", "attn_k_norm.weight", "attn_v.weight"}) bind.leave_out(blk + unused);
    return w;
  }
  w.k = bind.matrix(blk + "attn_k.weight", d, shape.k_cols());
  w.k_norm = bind.vector(blk + "attn_k_norm.weight", shape.k_head_dim);
  w.v = params.is_sliding[index] ? bind.matrix(blk + "attn_v.weight", d, shape.v_cols())
                                 : bind.find_matrix(blk + "attn_v.weight", d, shape.v_cols());
  return w;
}

// The layer has experts if it has a router; any other part without one is a mistake.
std::optional<MixtureWeights> bind_mixture(TensorBinder& bind, const Params& params, const std::string& blk) {
  if (!params.experts) return std::nullopt;
  if (!bind.has(blk + "ffn_gate_inp.weight") && !bind.has(blk + "ffn_down_exps.weight")) return std::nullopt;
  const int64_t d = params.common.n_embd;
  return MixtureWeights{.experts = bind_experts(bind, blk, d, params.experts),
                        .router_scale = bind.vector(blk + "ffn_gate_inp.scale", d),
                        .expert_scale = bind.find_vector(blk + "ffn_down_exps.scale", params.experts.n_experts),
                        .pre_norm = bind.vector(blk + "pre_ffw_norm_2.weight", d),
                        .post_norm = bind.vector(blk + "post_ffw_norm_2.weight", d),
                        .dense_post_norm = bind.vector(blk + "post_ffw_norm_1.weight", d)};
}

Layer bind_layer(TensorBinder& bind, const Params& params, size_t index) {
  const int64_t d = params.common.n_embd;
  const std::string blk = fmt::format("blk.{}.", index);
  Layer layer;
  layer.attn_norm = bind.vector(blk + "attn_norm.weight", d);
  layer.attn = bind_heads(bind, params, index, blk);
  layer.post_attention_norm = bind.vector(blk + "post_attention_norm.weight", d);
  layer.ffn_norm = bind.vector(blk + "ffn_norm.weight", d);
  layer.ffn = bind_feed_forward(bind, blk, d, params.common.layers[index].n_ff);
  layer.mixture = bind_mixture(bind, params, blk);
  layer.post_ffw_norm = bind.vector(blk + "post_ffw_norm.weight", d);
  layer.output_scale = bind.find_vector(blk + "layer_output_scale.weight", 1);
  if (params.n_per_layer_embd > 0) {
    layer.per_layer_gate = bind.matrix(blk + "inp_gate.weight", d, params.n_per_layer_embd);
    layer.per_layer_proj = bind.matrix(blk + "proj.weight", params.n_per_layer_embd, d);
    layer.per_layer_norm = bind.vector(blk + "post_norm.weight", d);
  }
  return layer;
}

// Per-layer embeddings: of each token, a vector for every layer.
struct PerLayerEmbeddings {
  Weight table, proj, proj_norm;
};

PerLayerEmbeddings bind_per_layer_embeddings(TensorBinder& bind, const Params& params, int64_t n_embeddings) {
  if (params.n_per_layer_embd == 0) return {};
  const int64_t cols = params.n_per_layer_embd * params.common.n_layers();
  return {.table = bind.matrix("per_layer_token_embd.weight", cols, n_embeddings),
          .proj = bind.matrix("per_layer_model_proj.weight", params.common.n_embd, cols),
          .proj_norm = bind.vector("per_layer_proj_norm.weight", params.n_per_layer_embd)};
}

float inverse_sqrt(int64_t n) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(n))); }

float sqrt_of(int64_t n) { return static_cast<float>(std::sqrt(static_cast<double>(n))); }

// The vectors of all layers side by side: half from a table of their own, half from the token's embedding `x`.
Node embed_per_layer(Builder& b, const PerLayerEmbeddings& w, const Params& params, Node x) {
  const int64_t width = params.n_per_layer_embd;
  const Node tokens = b.embed("per_layer_embd", w.table, sqrt_of(width));
  Node context =
      b.scale("per_layer_proj", b.matmul("per_layer_proj_raw", x, w.proj), inverse_sqrt(params.common.n_embd));
  context = b.rms_norm("per_layer_proj_norm", context, w.proj_norm, params.common.rms_eps, width);
  return b.scale("per_layer_inputs", b.add("per_layer_sum", tokens, context), inverse_sqrt(2));
}

Node take_layer_input(Builder& b, const Params& params, size_t index, Node per_layer_inputs) {
  const int64_t width = params.n_per_layer_embd;
  return b.take_columns("per_layer_input", per_layer_inputs, width * params.common.n_layers(),
                        static_cast<int64_t>(index) * width, width);
}

Node attention_branch(Builder& b, const Layer& w, const Params& params, const Builder::RopeSpec& rope, size_t index,
                      Node x) {
  const HeadShape shape = params.heads(index);
  const float eps = params.common.rms_eps;
  constexpr float kScale = 1.0f;
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, eps);
  if (!params.has_kv(index)) {
    const Node q = b.rms_norm("q_norm", b.matmul("q", h, w.attn.q), w.attn.q_norm, eps, shape.k_head_dim);
    // Layers with K and V of their own come first, each with a KV layer, so these have the layers' numbers.
    return b.attention_shared("attn", b.rope("q_rope", q, rope),
                              {.kv_layer = params.kv_sources[index], .n_heads = shape.n_heads, .scale = kScale});
  }
  Heads heads{.q = b.matmul("q", h, w.attn.q), .k = b.matmul("k", h, w.attn.k), .v = {}};
  heads.v = w.attn.v ? b.matmul("v", h, w.attn.v) : heads.k;
  heads.v = b.rms_norm("v_norm", heads.v, {}, eps, shape.v_head_dim);
  heads = rotate_heads(b, normalise_heads(b, w.attn, heads, shape, eps), rope);
  return attend(b, heads, shape, {.scale = kScale, .window = params.is_sliding[index] ? params.window : 0});
}

// The experts' part of the feed-forward branch. Both they and their router read the residual stream itself.
Node mixture_branch(Builder& b, const MixtureWeights& w, const Params& params, Node x) {
  const float eps = params.common.rms_eps;
  const Node scaled = b.scale("ffn_router_in", b.rms_norm("ffn_router_norm", x, w.router_scale, eps),
                              inverse_sqrt(params.common.n_embd));
  Builder::ExpertsSpec spec = experts_spec(w.experts, params.experts, kActivation);
  spec.expert_scale = w.expert_scale;
  const Node h = b.rms_norm("ffn_experts_norm", x, w.pre_norm, eps);
  const Node mixed = b.experts("ffn_experts", h, b.matmul("ffn_router", scaled, w.experts.router), spec);
  return b.rms_norm("ffn_experts_post_norm", mixed, w.post_norm, eps);
}

Node ffn_branch(Builder& b, const Layer& w, const Params& params, Node x) {
  const float eps = params.common.rms_eps;
  Node out = feed_forward(b, w.ffn, kActivation, b.rms_norm("ffn_norm", x, w.ffn_norm, eps));
  if (w.mixture) {
    out = b.rms_norm("ffn_dense_post_norm", out, w.mixture->dense_post_norm, eps);
    out = b.add("ffn_sum", out, mixture_branch(b, *w.mixture, params, x));
  }
  return b.rms_norm("ffn_post_norm", out, w.post_ffw_norm, eps);
}

// What the layer's own vector of the token adds.
Node per_layer_branch(Builder& b, const Layer& w, float eps, Node x, Node per_layer_input) {
  const Node gate = b.matmul("per_layer_gate", x, w.per_layer_gate);
  const Node gated = b.gated_activation("per_layer_gated", gate, per_layer_input, kActivation);
  return b.rms_norm("per_layer_post_norm", b.matmul("per_layer_out", gated, w.per_layer_proj), w.per_layer_norm, eps);
}

struct Ropes {
  Builder::RopeSpec sliding;
  Builder::RopeSpec full;
};

// Full layers divide their frequencies by a tensor, which stops all but the first pairs.
Result<Ropes> make_ropes(TensorBinder& bind, const Params& params) {
  T9_TRY(sliding, make_rope(params.sliding_rope));
  RopeParams full_params = params.full_rope;
  const std::vector<float> divisors = bind.find_positive_values(std::string(kRopeDivisors), full_params.n_rot / 2);
  T9_TRY_VOID(bind.status());
  if (divisors.empty() && std::ranges::count(params.is_sliding, false) > 0) {
    return fail(ErrorCode::kInvalidInput, fmt::format("tensor {} is missing", kRopeDivisors));
  }
  full_params.divisors = divisors;
  T9_TRY(full, make_rope(full_params));
  return Ropes{.sliding = std::move(sliding), .full = std::move(full)};
}

}  // namespace

Result<Model> load_gemma4(std::shared_ptr<const gguf::File> file) {
  const Keys keys(file->metadata(), "gemma4");
  T9_TRY(params, read_params(keys));
  const DecoderParams& common = params.common;
  T9_TRY(vocabulary, read_vocabulary(*file, keys));

  Builder b;
  TensorBinder bind(*file, b);
  const Embeddings embeddings = bind_embeddings(bind, vocabulary, common.n_embd);
  const PerLayerEmbeddings per_layer = bind_per_layer_embeddings(bind, params, vocabulary.n_embeddings);
  const Weight output_norm = bind.vector("output_norm.weight", common.n_embd);
  T9_TRY(ropes, make_ropes(bind, params));
  std::vector<Layer> layers;
  for (size_t i = 0; i < common.layers.size(); ++i) layers.push_back(bind_layer(bind, params, i));
  T9_TRY_VOID(bind.status());

  Node x = b.embed("embd", embeddings.table, sqrt_of(common.n_embd));
  Node per_layer_inputs;
  if (per_layer.table) per_layer_inputs = embed_per_layer(b, per_layer, params, x);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& w = layers[i];
    b.set_prefix(fmt::format("blk.{}.", i));
    Node attn = attention_branch(b, w, params, params.is_sliding[i] ? ropes.sliding : ropes.full, i, x);
    Node input;
    if (per_layer.table) input = take_layer_input(b, params, i, per_layer_inputs);
    if (i + 1 == layers.size()) {  // nothing after the last attention needs the other rows
      attn = b.select_outputs("attn_selected", attn);
      x = b.select_outputs("x_selected", x);
      if (per_layer.table) input = b.select_outputs("per_layer_input_selected", input);
    }
    attn = b.matmul("attn_output", attn, w.attn.output);
    x = b.add("attn_residual", x, b.rms_norm("attn_post_norm", attn, w.post_attention_norm, common.rms_eps));
    x = b.add("ffn_residual", x, ffn_branch(b, w, params, x));
    if (per_layer.table) x = b.add("per_layer_residual", x, per_layer_branch(b, w, common.rms_eps, x, input));
    if (w.output_scale) x = b.scale("out", x, 1.0f, w.output_scale);
  }
  b.set_prefix("");
  Node logits = b.matmul("logits", b.rms_norm("output_norm", x, output_norm, common.rms_eps), embeddings.head);
  if (params.final_softcap > 0.0f) logits = b.soft_cap("logits_capped", logits, params.final_softcap);
  T9_TRY(model, make_model(std::move(file), common, bind, std::move(b).finish(logits)));
  model.info.sees_whole_images = params.n_per_layer_embd == 0;
  return model;
}

}  // namespace tempo9::models
