#include "models/experts.h"

#include <fmt/format.h>

namespace tempo9::models {
namespace {

// Values of expert_gating_func that come to a softmax over the chosen experts, which is what tensor::Experts does.
constexpr int64_t kSoftmax = 1;
constexpr int64_t kSoftmaxOverChosen = 3;

Result<void> check_routing(const Keys& keys) {
  T9_TRY(gating, keys.find_count("expert_gating_func", kSoftmax));
  if (gating != kSoftmax && gating != kSoftmaxOverChosen) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("metadata {} is {}: only softmax ({}, {}) is implemented",
                            keys.full_name("expert_gating_func"), gating, kSoftmax, kSoftmaxOverChosen));
  }
  T9_TRY(is_normalised, keys.metadata().find_bool(keys.full_name("expert_weights_norm")));
  if (is_normalised && !*is_normalised) {
    return fail(ErrorCode::kUnsupported, fmt::format("metadata {} is false: only weights that sum to 1 are implemented",
                                                     keys.full_name("expert_weights_norm")));
  }
  return {};
}

Result<int64_t> read_width(const Keys& keys, ExpertWidth fallback, int64_t feed_forward_length, int64_t n_used) {
  constexpr std::string_view kKey = "expert_feed_forward_length";
  if (fallback == ExpertWidth::kFeedForwardPerUsed) feed_forward_length /= n_used;
  const bool is_given = keys.metadata().contains(keys.full_name(kKey));
  if (is_given || fallback == ExpertWidth::kRequired || feed_forward_length == 0) return keys.read_count(kKey);
  return feed_forward_length;
}

}  // namespace

Result<ExpertParams> read_expert_params(const Keys& keys, const DecoderParams& common, ExpertWidth fallback) {
  T9_TRY(n_experts, keys.find_count("expert_count", 0));
  if (n_experts == 0) {
    T9_TRY_VOID(keys.find_count("expert_used_count", 0, 0));
    return ExpertParams{};
  }
  T9_TRY(n_used, keys.read_count("expert_used_count"));
  if (n_used > n_experts) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} is {}, more than the {} of {}", keys.full_name("expert_used_count"), n_used,
                            n_experts, keys.full_name("expert_count")));
  }
  T9_TRY_VOID(check_routing(keys));
  T9_TRY(n_ff, read_width(keys, fallback, common.layers[0].n_ff, n_used));
  T9_TRY(weight_scale, keys.find_positive("expert_weights_scale", 1.0));
  return ExpertParams{
      .n_experts = n_experts, .n_used = n_used, .n_ff = n_ff, .weight_scale = static_cast<float>(weight_scale)};
}

ExpertWeights bind_experts(TensorBinder& bind, const std::string& prefix, int64_t n_embd, const ExpertParams& params,
                           bool has_biases) {
  const int64_t n = params.n_experts;
  const auto bias = [&](const char* name, int64_t elements) {
    return has_biases ? bind.vector(prefix + name, elements, n) : graph::Weight{};
  };
  ExpertWeights w;
  w.router = bind.matrix(prefix + "ffn_gate_inp.weight", n_embd, n);
  if (has_biases) w.router_bias = bind.vector(prefix + "ffn_gate_inp.bias", n);
  if (bind.has(prefix + "ffn_gate_up_exps.weight")) {
    w.gate = bind.matrix(prefix + "ffn_gate_up_exps.weight", n_embd, 2 * params.n_ff, n);
    w.gate_bias = bias("ffn_gate_up_exps.bias", 2 * params.n_ff);
  } else {
    w.gate = bind.matrix(prefix + "ffn_gate_exps.weight", n_embd, params.n_ff, n);
    w.gate_bias = bias("ffn_gate_exps.bias", params.n_ff);
    w.up = bind.matrix(prefix + "ffn_up_exps.weight", n_embd, params.n_ff, n);
    w.up_bias = bias("ffn_up_exps.bias", params.n_ff);
  }
  w.down = bind.matrix(prefix + "ffn_down_exps.weight", params.n_ff, n_embd, n);
  w.down_bias = bias("ffn_down_exps.bias", n_embd);
  return w;
}

graph::Builder::ExpertsSpec experts_spec(const ExpertWeights& weights, const ExpertParams& params,
                                         tensor::Activation activation) {
  return {.gate = weights.gate,
          .up = weights.up,
          .down = weights.down,
          .gate_bias = weights.gate_bias,
          .up_bias = weights.up_bias,
          .down_bias = weights.down_bias,
          .n_used = params.n_used,
          .weight_scale = params.weight_scale,
          .activation = activation};
}

graph::Node mix_experts(graph::Builder& builder, const ExpertWeights& weights, const ExpertParams& params,
                        tensor::Activation activation, graph::Node h) {
  const graph::Node router = builder.matmul("ffn_router", h, weights.router, weights.router_bias);
  return builder.experts("ffn_experts", h, router, experts_spec(weights, params, activation));
}

}  // namespace tempo9::models
