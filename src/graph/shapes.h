// The rules of every op: what its inputs and weights must look like, and the shape of what it makes.
#pragma once

#include "base/result.h"
#include "tensor/program.h"

namespace tempo9::graph {

struct Shape {
  int64_t cols = 0;  // 0: the op makes no value (KvWrite)
  tensor::RowSet rows = tensor::RowSet::kBatch;
};

// The shape of the value that `op` makes, from the values, weights, tables and layers of `program`, whose values so far
// are all written. `op.out` is not looked at. Errors: kInvalidInput, with what is wrong and where.
Result<Shape> output_shape(const tensor::Program& program, const tensor::Op& op);

// Sizes on their own: above zero, and small enough that no product of two overflows.
Result<void> check_weight(const tensor::WeightSpec& weight);
Result<void> check_kv_layer(const tensor::KvLayerSpec& layer);
Result<void> check_state_layer(const tensor::StateLayerSpec& layer);

}  // namespace tempo9::graph
