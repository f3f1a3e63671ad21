// Builds a tensor::Program: checks shapes as ops are added and names every value. Used by models/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/program.h"

namespace tempo9::graph {

// A value under construction.
struct Node {
  tensor::ValueId id = tensor::kNone;
};

// A weight that the program reads.
struct Weight {
  tensor::WeightId id = tensor::kNone;
  explicit operator bool() const { return id != tensor::kNone; }
};

// Shape mistakes are mistakes of the model's code, since weights were checked against the file before: T9_CHECK.
class Builder {
 public:
  Weight weight(tensor::WeightSpec spec);
  const tensor::WeightSpec& spec(Weight w) const;
  int64_t cols(Node x) const;

  // Names the values made until the next call: "blk.3." and so on.
  void set_prefix(std::string prefix);

  Node embed(std::string_view name, Weight table, float scale);
  // Over the whole row when `group` is 0, else over each run of `group` columns.
  Node rms_norm(std::string_view name, Node x, Weight weight, float eps, int64_t group = 0);
  Node matmul(std::string_view name, Node x, Weight weight, Weight bias = {});
  Node add(std::string_view name, Node a, Node b);
  struct RopeSpec {
    std::vector<float> frequencies;  // n_rot / 2, in radians per position
    int64_t head_dim = 0;
    tensor::RopePairs pairs = tensor::RopePairs::kHalves;
    float magnitude = 1.0f;
    std::vector<uint8_t> axes = {};  // position plane of each pair; empty: plane 0 for all
  };
  Node rope(std::string_view name, Node x, const RopeSpec& spec);
  int32_t add_kv_layer(const tensor::KvLayerSpec& spec);
  struct AttentionSpec {
    int32_t kv_layer = 0;
    int64_t n_heads = 0;
    float scale = 1.0f;
    float softcap = 0.0f;
    Weight sinks = {};  // one logit per head
  };
  // Writes k and v to the layer's cache and attends; the window is the layer's.
  Node attention(std::string_view name, Node q, Node k, Node v, const AttentionSpec& spec);
  // Attends over what an earlier layer has written; spec.kv_layer is that layer's.
  Node attention_shared(std::string_view name, Node q, const AttentionSpec& spec);
  Node gated_activation(std::string_view name, Node gate, Node up, tensor::Activation activation);
  Node select_outputs(std::string_view name, Node x);
  Node soft_cap(std::string_view name, Node x, float cap);
  Node scale(std::string_view name, Node x, float factor, Weight by = {});
  Node take_columns(std::string_view name, Node x, int64_t group, int64_t begin, int64_t count);
  Node concat(std::string_view name, Node a, Node b);
  Node gate_rows(std::string_view name, Node gate, Node x);
  Node position_scale(std::string_view name, Node x, float beta, int64_t period);
  struct ExpertsSpec {
    Weight gate;  // with gate rows first and as many up rows after them when `up` is absent
    Weight up = {};
    Weight down;
    Weight gate_bias = {};
    Weight up_bias = {};
    Weight down_bias = {};
    Weight expert_scale = {};
    int64_t n_used = 0;
    float weight_scale = 1.0f;
    tensor::Activation activation = tensor::Activation::kSilu;
  };
  Node experts(std::string_view name, Node x, Node router, const ExpertsSpec& spec);
  int32_t add_state_layer(const tensor::StateLayerSpec& spec);
  Node causal_conv(std::string_view name, Node x, Weight weight, int32_t state_layer);
  struct DeltaNetSpec {
    int32_t state_layer = 0;
    int64_t n_k_heads = 0;
    int64_t n_v_heads = 0;
    int64_t k_dim = 0;
    int64_t v_dim = 0;
  };
  Node delta_net(std::string_view name, Node qkv, Node beta, Node alpha, Weight a, Weight dt, const DeltaNetSpec& spec);
  // Rows that another program made: Batch::hidden.
  Node input(std::string_view name, int64_t cols);

  // Adds a further part of the rows' embeddings: the columns from `begin` on.
  Node add_embedding(std::string_view name, Node x, int64_t begin);

  // Makes `x` the program's hidden state, which a draft block reads; of all rows or of those whose logits are wanted.
  void set_hidden(Node x);

  // Ends the program: `logits` is its result. Plans the memory.
  tensor::Program finish(Node logits) &&;

 private:
  // Puts the op and the value that it makes at the end of the program.
  template <class Op>
  Node append(std::string_view name, Op op);
  // Index of an equal table, or of a new one: layers share theirs.
  int32_t add_frequencies(const std::vector<float>& frequencies);
  int32_t add_axes(const std::vector<uint8_t>& axes);
  const tensor::Value& value(Node x) const;

  tensor::Program program_;
  std::string prefix_;
};

// Assigns slots by lifetime: a value's slot is free for another after the op that reads it last. The output of an op
// never lies in the slot of an input of the same op, dead or not, so backends need not care about aliasing. The logits'
// slot is never given away again. Deterministic.
tensor::MemoryPlan plan_memory(const tensor::Program& program);

}  // namespace tempo9::graph
