// The arithmetic that a tower's pass is written in (forward.h): whoever runs towers on the CPU says how products,
// attention and activations are computed and how rows are spread over threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tensor/views.h"
#include "vision/tower_spec.h"

namespace tempo9::vision {

// q, k and v: a row per patch, head after head. Rows see each other, in both directions, inside the ranges; of those
// the rows from n_real on are seen by no row before them.
struct AttentionInput {
  tensor::MatView<const float> q, k, v;
  tensor::MatView<float> out;
  int64_t n_heads = 0;
  float scale = 1.0f;
  std::span<const tensor::IndexRange> ranges;  // ascending, of all rows
  int64_t n_real = 0;
};

class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  // out = weight x + bias; bounds are the caller's business.
  virtual void linear(const Linear& linear, tensor::MatView<const float> x, tensor::MatView<float> out) = 0;
  virtual void attention(const AttentionInput& input) = 0;
  // out = activation(x) * by, of n values; `by` may be null. out may be x.
  virtual void activate(Activation activation, const float* x, const float* by, float* out, int64_t n) const = 0;
  // Calls f for ranges that cover [0, n), perhaps at the same time from several threads.
  virtual void for_rows(int64_t n, const std::function<void(tensor::IndexRange)>& f) = 0;
  // True once the pass is not wanted any more: then everything above may be left undone.
  virtual bool is_stopped() const = 0;
};

// Plain loops over plain floats, summed in double: what is right.
std::unique_ptr<Arithmetic> make_reference_arithmetic();

}  // namespace tempo9::vision
