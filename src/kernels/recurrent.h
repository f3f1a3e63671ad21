// Recurrent layers: the causal convolution and the gated delta net (spec models 7.4), one token after another, whatever
// the number of rows (numeric contract C6). A sequence's rows are given in order; the state is that before the first
// and becomes that after the last.
#pragma once

#include <cstdint>

#include "tensor/views.h"

namespace tempo9::kernels {

// Value columns of the delta net that go through the tokens together. Their part of the state (8 KiB at 128 keys) stays
// in L1.
inline constexpr int64_t kDeltaSlice = 16;

struct DeltaNetShape {
  int64_t n_k_heads = 0;
  int64_t n_v_heads = 0;  // value head h uses key head h % n_k_heads
  int64_t k_dim = 0;
  int64_t v_dim = 0;
};

// One row per token.
struct DeltaNetRows {
  tensor::MatView<const float> qkv;    // Q of all key heads, K of all, V of all value heads
  tensor::MatView<const float> beta;   // one column per value head
  tensor::MatView<const float> alpha;  // one column per value head
  tensor::MatView<float> out;          // all value heads
};

struct RecurrentKernels {
  // Columns [cols.begin, cols.end) of out = silu(sum over j of taps[j] * x of the row kernel - 1 - j earlier).
  // taps: `kernel` rows of x.cols. state: the kernel - 1 rows before the first, oldest first, x.cols each. Columns are
  // independent: threads take disjoint ones.
  void (*causal_conv)(tensor::MatView<const float> x, const float* taps, int64_t kernel, tensor::IndexRange cols,
                      float* state, tensor::MatView<float> out);
  // One value head. `a` and `dt` are its; `state` has k_dim * v_dim floats: per slice of kDeltaSlice value columns (or
  // what is left), k_dim rows of the slice's columns. `scratch` has delta_net_scratch(shape) floats.
  void (*delta_net)(const DeltaNetShape& shape, const DeltaNetRows& rows, int64_t head, float a, float dt, float* state,
                    float* scratch);
};

// Tokens that are held at a time: normalised keys and queries, values, results.
inline constexpr int64_t kDeltaTokens = 16;
inline int64_t delta_net_scratch(const DeltaNetShape& shape) { return 2 * kDeltaTokens * (shape.k_dim + shape.v_dim); }

}  // namespace tempo9::kernels
