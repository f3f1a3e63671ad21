// A model's forward pass as data: values, weights, ops in order, and where values live. Independent of batch size.
// graph/ builds it, a backend compiles it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/ops.h"

namespace tempo9::tensor {

enum class RowSet : uint8_t { kBatch, kOutputs };  // one row per batch row, or per row whose logits are wanted

struct Value {
  std::string name;  // as in goldens and traces, e.g. "blk.3.attn_norm"
  int64_t cols = 0;
  RowSet rows = RowSet::kBatch;
};

struct WeightSpec {
  std::string name;  // the tensor's name in the file
  DType dtype = DType::kF32;
  int64_t cols = 0;
  int64_t rows = 1;
  int64_t depth = 1;
};

// One attention layer's share of the KV cache.
struct KvLayerSpec {
  int64_t n_kv_heads = 0;
  int64_t k_head_dim = 0;
  int64_t v_head_dim = 0;
  int64_t window = 0;  // 0: keeps every token
};

// One recurrent layer's state of a sequence: both parts are zero for a new sequence. Layout of the floats is the
// backend's own; copying them copies the state.
struct StateLayerSpec {
  int64_t conv_floats = 0;   // (kernel - 1) * columns of the convolution
  int64_t delta_floats = 0;  // n_v_heads * k_dim * v_dim
  int64_t floats() const { return conv_floats + delta_floats; }
};

// Values whose lifetimes do not meet share a slot. Slot s needs rows * slot_cols[s] floats, where rows is the limit of
// its row set: all values of a slot have the same one. An op's output never shares a slot with one of its inputs.
struct MemoryPlan {
  std::vector<int32_t> slot_of_value;
  std::vector<int64_t> slot_cols;
  std::vector<RowSet> slot_rows = {};
};

struct Program {
  std::vector<Value> values;
  std::vector<WeightSpec> weights;
  std::vector<std::vector<float>> rope_frequencies;
  std::vector<std::vector<uint8_t>> rope_axes;  // position plane (0 to 2) of each pair
  std::vector<KvLayerSpec> kv_layers;
  std::vector<StateLayerSpec> state_layers;
  std::vector<Op> ops;
  MemoryPlan memory;
  ValueId logits = kNone;  // RowSet::kOutputs, cols = vocabulary
  ValueId hidden = kNone;  // what a draft block reads (Input); kNone when there is no such block
};

}  // namespace tempo9::tensor
