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
  };
  Node rope(std::string_view name, Node x, const RopeSpec& spec);
  int32_t add_kv_layer(const tensor::KvLayerSpec& spec);
  struct AttentionSpec {
    int32_t kv_layer = 0;
    int64_t n_heads = 0;
    float scale = 1.0f;
    float softcap = 0.0f;
  };
  // Writes k and v to the layer's cache and attends; the window is the layer's.
  Node attention(std::string_view name, Node q, Node k, Node v, const AttentionSpec& spec);
  Node gated_activation(std::string_view name, Node gate, Node up, tensor::Activation activation);
  Node select_outputs(std::string_view name, Node x);
  Node soft_cap(std::string_view name, Node x, float cap);

  // Ends the program: `logits` is its result. Plans the memory.
  tensor::Program finish(Node logits) &&;

 private:
  Node new_value(std::string_view name, int64_t cols, tensor::RowSet rows);
  // Index of an equal table, or of a new one: layers share theirs.
  int32_t add_frequencies(const std::vector<float>& frequencies);
  const tensor::Value& value(Node x) const;

  tensor::Program program_;
  std::string prefix_;
};

// Assigns slots by lifetime: a value's slot is free for another after the op that reads it last. The output of an op
// never lies in the slot of an input of the same op, dead or not, so backends need not care about aliasing. The logits'
// slot is never given away again. Deterministic.
tensor::MemoryPlan plan_memory(const tensor::Program& program);

}  // namespace tempo9::graph
