// Ops that take each row on its own.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/reference/reference.h"

namespace tempo9::kernels::reference {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double silu(double x) { return x * sigmoid(x); }

double gelu_tanh(double x) {
  const double slope = std::sqrt(2.0 / std::numbers::pi);
  return 0.5 * x * (1.0 + std::tanh(slope * (x + 0.044715 * x * x * x)));
}

double gated(tensor::Activation activation, double gate, double up) {
  switch (activation) {
    case tensor::Activation::kSilu:
      return silu(gate) * up;
    case tensor::Activation::kGeluTanh:
      return gelu_tanh(gate) * up;
    case tensor::Activation::kSigmoid:
      return sigmoid(gate) * up;
    case tensor::Activation::kClampedSwiglu: {
      const double g = std::min(gate, 7.0);
      return g * sigmoid(1.702 * g) * (std::clamp(up, -7.0, 7.0) + 1.0);
    }
  }
  return 0.0;
}

void rms_norm_group(const float* x, std::span<const float> weight, int64_t n, float eps, float* out) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double scale = 1.0 / std::sqrt(sum / static_cast<double>(n) + static_cast<double>(eps));
  for (int64_t i = 0; i < n; ++i) {
    const double w = weight.empty() ? 1.0 : static_cast<double>(weight[static_cast<size_t>(i)]);
    out[i] = static_cast<float>(static_cast<double>(x[i]) * scale * w);
  }
}

}  // namespace

void rms_norm(const tensor::RmsNorm& op, std::span<const float> weight, MatView<const float> x, MatView<float> out) {
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t begin = 0; begin < x.cols; begin += op.group) {
      rms_norm_group(x.row(i) + begin, weight, op.group, op.eps, out.row(i) + begin);
    }
  }
}

void add(MatView<const float> a, MatView<const float> b, MatView<float> out) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t c = 0; c < a.cols; ++c) out.row(i)[c] = a.row(i)[c] + b.row(i)[c];
  }
}

void gated_activation(tensor::Activation activation, MatView<const float> gate, MatView<const float> up,
                      MatView<float> out) {
  for (int64_t i = 0; i < gate.rows; ++i) {
    for (int64_t c = 0; c < gate.cols; ++c) {
      out.row(i)[c] =
          static_cast<float>(gated(activation, static_cast<double>(gate.row(i)[c]), static_cast<double>(up.row(i)[c])));
    }
  }
}

void scale(float factor, MatView<const float> x, MatView<float> out) {
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t c = 0; c < x.cols; ++c) out.row(i)[c] = x.row(i)[c] * factor;
  }
}

void take_columns(const tensor::TakeColumns& op, MatView<const float> x, MatView<float> out) {
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t run = 0; run < x.cols / op.group; ++run) {
      std::copy_n(x.row(i) + run * op.group + op.begin, op.count, out.row(i) + run * op.count);
    }
  }
}

void concat(MatView<const float> a, MatView<const float> b, MatView<float> out) {
  for (int64_t i = 0; i < a.rows; ++i) {
    std::copy_n(a.row(i), a.cols, out.row(i));
    std::copy_n(b.row(i), b.cols, out.row(i) + a.cols);
  }
}

void gate_rows(MatView<const float> gate, MatView<const float> x, MatView<float> out) {
  for (int64_t i = 0; i < x.rows; ++i) {
    const double factor = sigmoid(static_cast<double>(gate.row(i)[0]));
    for (int64_t c = 0; c < x.cols; ++c) out.row(i)[c] = static_cast<float>(factor * static_cast<double>(x.row(i)[c]));
  }
}

void position_scale(const tensor::PositionScale& op, std::span<const int32_t> positions, MatView<const float> x,
                    MatView<float> out) {
  for (int64_t i = 0; i < x.rows; ++i) {
    const double period = static_cast<double>(positions[static_cast<size_t>(i)] / op.period);
    const double factor = 1.0 + static_cast<double>(op.beta) * std::log(1.0 + period);
    for (int64_t c = 0; c < x.cols; ++c) out.row(i)[c] = static_cast<float>(factor * static_cast<double>(x.row(i)[c]));
  }
}

void soft_cap(float cap, MatView<const float> x, MatView<float> out) {
  const double limit = static_cast<double>(cap);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t c = 0; c < x.cols; ++c) {
      out.row(i)[c] = static_cast<float>(limit * std::tanh(static_cast<double>(x.row(i)[c]) / limit));
    }
  }
}

void select_rows(std::span<const int32_t> rows, MatView<const float> x, MatView<float> out) {
  for (size_t i = 0; i < rows.size(); ++i) std::copy_n(x.row(rows[i]), x.cols, out.row(static_cast<int64_t>(i)));
}

void rope(const tensor::Rope& op, std::span<const float> frequencies, std::span<const uint8_t> axes,
          std::span<const int32_t> positions, MatView<const float> x, MatView<float> out) {
  const int64_t n_pairs = op.n_rot / 2;
  const bool interleaved = op.pairs == tensor::RopePairs::kInterleaved;
  std::vector<float> cosines(static_cast<size_t>(n_pairs)), sines(static_cast<size_t>(n_pairs));
  for (int64_t i = 0; i < x.rows; ++i) {
    for (size_t pair = 0; pair < cosines.size(); ++pair) {
      // Text has one plane of positions, which then stands for all three.
      const size_t plane = axes.empty() || positions.size() == static_cast<size_t>(x.rows) ? 0 : axes[pair];
      const int32_t position = positions[plane * static_cast<size_t>(x.rows) + static_cast<size_t>(i)];
      // The angle is rounded to f32: that is the rotation models were trained with.
      const float angle = static_cast<float>(position) * frequencies[pair];
      cosines[pair] = static_cast<float>(std::cos(static_cast<double>(angle))) * op.magnitude;
      sines[pair] = static_cast<float>(std::sin(static_cast<double>(angle))) * op.magnitude;
    }
    std::copy_n(x.row(i), x.cols, out.row(i));
    for (int64_t head = 0; head < x.cols; head += op.head_dim) {
      for (int64_t pair = 0; pair < n_pairs; ++pair) {
        const int64_t first = head + (interleaved ? 2 * pair : pair);
        const int64_t second = interleaved ? first + 1 : first + n_pairs;
        const float a = x.row(i)[first], b = x.row(i)[second];
        const float cosine = cosines[static_cast<size_t>(pair)], sine = sines[static_cast<size_t>(pair)];
        out.row(i)[first] = a * cosine - b * sine;
        out.row(i)[second] = a * sine + b * cosine;
      }
    }
  }
}

}  // namespace tempo9::kernels::reference
