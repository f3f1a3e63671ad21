// Every op in plain C++: what the other kernels are measured against. f32 in and out, sums in double, functions from
// libm, weights decoded exactly, activations as they are. Each output row depends on its own input row only, so the
// bits do not change with the batch. One thread.
//
// The op structs give the parameters; their ids are not used. Views have the shapes that tensor/ops.h says; `out`
// overlaps no input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/batch.h"
#include "tensor/ops.h"
#include "tensor/program.h"
#include "tensor/views.h"

namespace tempo9::kernels::reference {

using tensor::MatView;
using tensor::WeightView;

// sum of a[i] * b[i]. f32 in 16 lanes over runs of at most 256 products, the runs in double: the error is a few units
// in the last place of the largest partial sum, at the speed of f32.
float dot(const float* a, const float* b, int64_t n);

void embed(const tensor::Embed& op, const WeightView& table, std::span<const int32_t> tokens, MatView<float> out);
// `bias` may be empty. Each weight row is decoded once, whatever the number of rows of x.
void matmul(const WeightView& weight, std::span<const float> bias, MatView<const float> x, MatView<float> out);

// `weight` may be empty.
void rms_norm(const tensor::RmsNorm& op, std::span<const float> weight, MatView<const float> x, MatView<float> out);
void add(MatView<const float> a, MatView<const float> b, MatView<float> out);
void gated_activation(tensor::Activation activation, MatView<const float> gate, MatView<const float> up,
                      MatView<float> out);
// out = x * factor
void scale(float factor, MatView<const float> x, MatView<float> out);
void take_columns(const tensor::TakeColumns& op, MatView<const float> x, MatView<float> out);
void concat(MatView<const float> a, MatView<const float> b, MatView<float> out);
void gate_rows(MatView<const float> gate, MatView<const float> x, MatView<float> out);
void position_scale(const tensor::PositionScale& op, std::span<const int32_t> positions, MatView<const float> x,
                    MatView<float> out);
void soft_cap(float cap, MatView<const float> x, MatView<float> out);
void select_rows(std::span<const int32_t> rows, MatView<const float> x, MatView<float> out);
// `axes` is empty or has the position plane of each pair.
void rope(const tensor::Rope& op, std::span<const float> frequencies, std::span<const uint8_t> axes,
          std::span<const int32_t> positions, MatView<const float> x, MatView<float> out);

// The weights of an Experts op; vectors are empty where the op has none, biases have one row per expert.
struct ExpertWeights {
  WeightView gate;
  const WeightView* up = nullptr;  // null: the gate's second half of rows
  WeightView down;
  std::span<const float> gate_bias, up_bias, down_bias, expert_scale;
};
void experts(const tensor::Experts& op, const ExpertWeights& weights, MatView<const float> x,
             MatView<const float> router, MatView<float> out);

// Recurrent layers. A state holds the convolution's last rows (oldest first), then S as [head][value][key].
void causal_conv(const tensor::CausalConv& op, std::span<const float> weight, int64_t kernel,
                 const tensor::Batch& batch, MatView<const float> x, MatView<float> out);
struct DeltaNetInputs {
  MatView<const float> qkv, beta, alpha;
  std::span<const float> a, dt;
};
void delta_net(const tensor::DeltaNet& op, const tensor::StateLayerSpec& layer, const DeltaNetInputs& in,
               const tensor::Batch& batch, MatView<float> out);

// The KV cache holds f32 values, in a cache of another type such as that can hold: a page is kPageTokens tokens, each
// n_kv_heads heads of head_dim values.
size_t k_page_bytes(const tensor::KvLayerSpec& layer);
size_t v_page_bytes(const tensor::KvLayerSpec& layer);
void kv_write(const tensor::KvWrite& op, const tensor::KvLayerSpec& layer, const tensor::Batch& batch,
              MatView<const float> k, MatView<const float> v);
// `sinks` is empty or has one logit per query head, which takes part in the softmax and has no value.
void attention(const tensor::Attention& op, const tensor::KvLayerSpec& layer, std::span<const float> sinks,
               const tensor::Batch& batch, MatView<const float> q, MatView<float> out);

}  // namespace tempo9::kernels::reference
