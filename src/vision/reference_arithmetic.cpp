#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "quant/quant.h"
#include "vision/activation.h"
#include "vision/arithmetic.h"

namespace tempo9::vision {
namespace {

using tensor::IndexRange;
using tensor::MatView;

double dot(const float* a, const float* b, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) sum += double{a[i]} * b[i];
  return sum;
}

class ReferenceArithmetic final : public Arithmetic {
 public:
  void linear(const Linear& linear, MatView<const float> x, MatView<float> out) override {
    const tensor::WeightView& weight = linear.weight;
    T9_CHECK(x.cols == weight.cols && out.cols == weight.rows && x.rows == out.rows);
    const quant::QuantType* type = quant::find_type(weight.dtype);
    std::vector<float> values(static_cast<size_t>(weight.cols));
    for (int64_t r = 0; r < weight.rows; ++r) {
      type->decode(weight.row(r), values.data(), weight.cols);
      const double bias = linear.bias.empty() ? 0.0 : linear.bias[static_cast<size_t>(r)];
      for (int64_t i = 0; i < x.rows; ++i) {
        out.row(i)[r] = static_cast<float>(dot(values.data(), x.row(i), weight.cols) + bias);
      }
    }
  }

  // With an additive mask, as executors of fixed shapes have it: -infinity would make rows that see nothing undefined.
  void attention(const AttentionInput& input) override {
    std::vector<double> mask(static_cast<size_t>(input.q.rows));
    for (int64_t i = input.n_real; i < input.q.rows; ++i) mask[static_cast<size_t>(i)] = kMasked;
    for (const IndexRange range : input.ranges) {
      for (int64_t row = range.begin; row < range.end; ++row) {
        for (int64_t head = 0; head < input.n_heads; ++head) attend(input, range, row, head, mask);
      }
    }
  }

  void activate(Activation activation, const float* x, const float* by, float* out, int64_t n) const override {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<float>(activation_of(activation, x[i]) * (by == nullptr ? 1.0f : by[i]));
    }
  }

  void for_rows(int64_t n, const std::function<void(IndexRange)>& f) override { f({0, n}); }
  bool is_stopped() const override { return false; }

 private:
  static constexpr double kMasked = -1e9;

  static void attend(const AttentionInput& input, IndexRange range, int64_t row, int64_t head,
                     const std::vector<double>& mask) {
    const int64_t head_dim = input.q.cols / input.n_heads, begin = head * head_dim;
    std::vector<double> p(static_cast<size_t>(range.size()));
    for (int64_t j = range.begin; j < range.end; ++j) {
      p[static_cast<size_t>(j - range.begin)] =
          input.scale * dot(input.q.row(row) + begin, input.k.row(j) + begin, head_dim) + mask[static_cast<size_t>(j)];
    }
    const double max = *std::ranges::max_element(p);
    double sum = 0.0;
    for (double& value : p) sum += value = std::exp(value - max);
    for (int64_t c = 0; c < head_dim; ++c) {
      double total = 0.0;
      for (int64_t j = range.begin; j < range.end; ++j) {
        total += p[static_cast<size_t>(j - range.begin)] * input.v.row(j)[begin + c];
      }
      input.out.row(row)[begin + c] = static_cast<float>(total / sum);
    }
  }
};

}  // namespace

std::unique_ptr<Arithmetic> make_reference_arithmetic() { return std::make_unique<ReferenceArithmetic>(); }

}  // namespace tempo9::vision
