// Layers with a state per sequence: the causal convolution and the gated delta net (spec models 7.4).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"

namespace tempo9::kernels::reference {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

constexpr double kL2Eps = 1e-6;

// x / sqrt(sum(x^2) + eps) * factor
std::vector<double> l2_normalized(const float* x, int64_t n, double factor) {
  double sum = kL2Eps;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double scale = factor / std::sqrt(sum);
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = static_cast<double>(x[i]) * scale;
  return out;
}

// One token of one value head. `state` is [value][key].
void delta_step(float* state, std::span<const double> q, std::span<const double> k, const float* v, int64_t v_dim,
                double decay, double beta, float* out) {
  const int64_t k_dim = static_cast<int64_t>(k.size());
  for (int64_t j = 0; j < v_dim; ++j) {
    float* row = state + j * k_dim;
    double read = 0.0;
    for (int64_t i = 0; i < k_dim; ++i) read += decay * static_cast<double>(row[i]) * k[static_cast<size_t>(i)];
    const double delta = beta * (static_cast<double>(v[j]) - read);
    double result = 0.0;
    for (int64_t i = 0; i < k_dim; ++i) {
      const double s = decay * static_cast<double>(row[i]) + k[static_cast<size_t>(i)] * delta;
      row[i] = static_cast<float>(s);
      result += s * q[static_cast<size_t>(i)];
    }
    out[j] = static_cast<float>(result);
  }
}

}  // namespace

void causal_conv(const tensor::CausalConv& op, std::span<const float> weight, int64_t kernel,
                 const tensor::Batch& batch, MatView<const float> x, MatView<float> out) {
  const int64_t cols = x.cols;
  for (int64_t i = 0; i < x.rows; ++i) {
    float* past = batch.states.state(op.state_layer, batch.sequences[static_cast<size_t>(i)]);
    for (int64_t c = 0; c < cols; ++c) {
      const float* taps = weight.data() + c * kernel;
      double sum = static_cast<double>(taps[kernel - 1]) * static_cast<double>(x.row(i)[c]);
      for (int64_t j = 0; j + 1 < kernel; ++j) {
        sum += static_cast<double>(taps[j]) * static_cast<double>(past[j * cols + c]);
      }
      out.row(i)[c] = static_cast<float>(sum * sigmoid(sum));
    }
    std::copy(past + cols, past + (kernel - 1) * cols, past);
    std::copy_n(x.row(i), cols, past + (kernel - 2) * cols);
  }
}

void delta_net(const tensor::DeltaNet& op, const tensor::StateLayerSpec& layer, const DeltaNetInputs& in,
               const tensor::Batch& batch, MatView<float> out) {
  const double q_scale = 1.0 / std::sqrt(static_cast<double>(op.k_dim));
  const int64_t key_cols = op.n_k_heads * op.k_dim;
  for (int64_t i = 0; i < out.rows; ++i) {
    float* states = batch.states.state(op.state_layer, batch.sequences[static_cast<size_t>(i)]) + layer.conv_floats;
    const float* row = in.qkv.row(i);
    for (int64_t h = 0; h < op.n_v_heads; ++h) {
      const int64_t key_head = h % op.n_k_heads;
      const auto q = l2_normalized(row + key_head * op.k_dim, op.k_dim, q_scale);
      const auto k = l2_normalized(row + key_cols + key_head * op.k_dim, op.k_dim, 1.0);
      const double dt = static_cast<double>(in.alpha.row(i)[h]) + static_cast<double>(in.dt[static_cast<size_t>(h)]);
      const double decay = std::exp(static_cast<double>(in.a[static_cast<size_t>(h)]) * softplus(dt));
      delta_step(states + h * op.k_dim * op.v_dim, q, k, row + 2 * key_cols + h * op.v_dim, op.v_dim, decay,
                 sigmoid(static_cast<double>(in.beta.row(i)[h])), out.row(i) + h * op.v_dim);
    }
  }
}

}  // namespace tempo9::kernels::reference
