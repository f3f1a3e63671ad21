// Mixtures of experts: keys, weights by their usual names, and the ops (spec models 1.7).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "graph/builder.h"
#include "models/hyperparameters.h"
#include "models/tensors.h"

namespace tempo9::models {

struct ExpertParams {
  int64_t n_experts = 0;  // 0: the file has none
  int64_t n_used = 0;     // of each row
  int64_t n_ff = 0;       // width of one expert
  float weight_scale = 1.0f;

  explicit operator bool() const { return n_experts > 0; }
};

// The width of an expert in files without expert_feed_forward_length.
enum class ExpertWidth : uint8_t {
  kRequired,            // there is none
  kFeedForward,         // feed_forward_length
  kFeedForwardPerUsed,  // feed_forward_length, split over the experts that a row uses
};

// From expert_count and the keys beside it. Errors: kInvalidInput by key, for counts that contradict each other too;
// kUnsupported when a key asks for a routing other than softmax with weights that sum to 1.
Result<ExpertParams> read_expert_params(const Keys& keys, const DecoderParams& common, ExpertWidth fallback);

// In files that have gate and up in one tensor, `gate` is that one, with all gate rows first, and `up` is empty.
struct ExpertWeights {
  graph::Weight router, router_bias;
  graph::Weight gate, up, down;
  graph::Weight gate_bias, up_bias, down_bias;
};

// `prefix` is "blk.N.". The biases, of router and experts, are all there or none.
ExpertWeights bind_experts(TensorBinder& bind, const std::string& prefix, int64_t n_embd, const ExpertParams& params,
                           bool has_biases = false);

// What the ops of these weights say; an architecture may add to it.
graph::Builder::ExpertsSpec experts_spec(const ExpertWeights& weights, const ExpertParams& params,
                                         tensor::Activation activation);

// Routes each row of `h` by its own value: "ffn_router", "ffn_experts".
graph::Node mix_experts(graph::Builder& builder, const ExpertWeights& weights, const ExpertParams& params,
                        tensor::Activation activation, graph::Node h);

}  // namespace tempo9::models
