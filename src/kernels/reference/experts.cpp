// Mixture of experts, row by row and expert by expert.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/reference/reference.h"

namespace tempo9::kernels::reference {
namespace {

struct Choice {
  int64_t expert;
  double weight;
};

// The n_used largest logits (ties: the lower index), in descending order, weighted by a softmax over themselves.
std::vector<Choice> choose(std::span<const float> logits, int64_t n_used) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  std::vector<Choice> chosen;
  double sum = 0.0;
  const double top = static_cast<double>(logits[static_cast<size_t>(order[0])]);
  for (int64_t i = 0; i < n_used; ++i) {
    const int64_t expert = order[static_cast<size_t>(i)];
    const double weight = std::exp(static_cast<double>(logits[static_cast<size_t>(expert)]) - top);
    chosen.push_back({expert, weight});
    sum += weight;
  }
  for (Choice& choice : chosen) choice.weight /= sum;
  return chosen;
}

// Rows [begin, begin + rows) of expert `expert`, as a weight of its own.
WeightView part_of(const WeightView& stack, int64_t expert, int64_t begin, int64_t rows) {
  WeightView view = stack;
  view.data = stack.row(expert * stack.rows + begin);
  view.rows = rows;
  view.depth = 1;
  return view;
}

std::span<const float> row_of(std::span<const float> bias, int64_t expert, int64_t cols, int64_t begin, int64_t count) {
  return bias.empty() ? bias : bias.subspan(static_cast<size_t>(expert * cols + begin), static_cast<size_t>(count));
}

}  // namespace

void experts(const tensor::Experts& op, const ExpertWeights& weights, MatView<const float> x,
             MatView<const float> router, MatView<float> out) {
  const int64_t n_ff = weights.down.cols;
  const int64_t gate_rows = weights.gate.rows;
  std::vector<float> gate(static_cast<size_t>(n_ff)), up(gate), gated(gate), result(static_cast<size_t>(out.cols));
  std::vector<double> sum(result.size());
  const auto as_row = [](std::vector<float>& v) {
    return MatView<float>{v.data(), 1, static_cast<int64_t>(v.size()), static_cast<int64_t>(v.size())};
  };
  for (int64_t i = 0; i < x.rows; ++i) {
    const MatView<const float> row = {x.row(i), 1, x.cols, x.stride};
    std::fill(sum.begin(), sum.end(), 0.0);
    for (const Choice& choice : choose({router.row(i), static_cast<size_t>(router.cols)}, op.n_used)) {
      const int64_t e = choice.expert;
      matmul(part_of(weights.gate, e, 0, n_ff), row_of(weights.gate_bias, e, gate_rows, 0, n_ff), row, as_row(gate));
      if (weights.up != nullptr) {
        matmul(part_of(*weights.up, e, 0, n_ff), row_of(weights.up_bias, e, n_ff, 0, n_ff), row, as_row(up));
      } else {
        matmul(part_of(weights.gate, e, n_ff, n_ff), row_of(weights.gate_bias, e, gate_rows, n_ff, n_ff), row,
               as_row(up));
      }
      gated_activation(op.activation, as_row(gate), as_row(up), as_row(gated));
      matmul(part_of(weights.down, e, 0, out.cols), row_of(weights.down_bias, e, out.cols, 0, out.cols), as_row(gated),
             as_row(result));
      double factor = choice.weight * static_cast<double>(op.weight_scale);
      if (!weights.expert_scale.empty()) factor *= static_cast<double>(weights.expert_scale[static_cast<size_t>(e)]);
      for (size_t c = 0; c < sum.size(); ++c) sum[c] += factor * static_cast<double>(result[c]);
    }
    for (size_t c = 0; c < sum.size(); ++c) out.row(i)[c] = static_cast<float>(sum[c]);
  }
}

}  // namespace tempo9::kernels::reference
