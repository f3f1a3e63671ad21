// Products with weights, and rows of a table.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/reference/reference.h"
#include "quant/quant.h"

namespace tempo9::kernels::reference {
namespace {

const quant::QuantType& type_of(const WeightView& weight) {
  const quant::QuantType* type = quant::find_type(weight.dtype);
  T9_CHECK_MSG(type != nullptr, tensor::dtype_name(weight.dtype));
  return *type;
}

constexpr int64_t kLanes = 16;
constexpr int64_t kRun = 256;

// At most kRun products. A loop over the lanes of an array is what compilers turn into vectors without being allowed
// to reorder float sums.
double short_dot(const float* a, const float* b, int64_t n) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += a[i] * b[i];
  double sum = 0.0;
  for (float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace

float dot(const float* a, const float* b, int64_t n) {
  double sum = 0.0;
  for (int64_t begin = 0; begin < n; begin += kRun) sum += short_dot(a + begin, b + begin, std::min(kRun, n - begin));
  return static_cast<float>(sum);
}

void embed(const tensor::Embed& op, const WeightView& table, std::span<const int32_t> tokens, MatView<float> out) {
  const quant::QuantType& type = type_of(table);
  for (int64_t i = 0; i < out.rows; ++i) {
    const int32_t token = tokens[static_cast<size_t>(i)];
    T9_CHECK(token >= 0 && token < table.rows);
    type.decode(table.row(token), out.row(i), table.cols);
    for (float& value : out.row_span(i)) value *= op.scale;
  }
}

void matmul(const WeightView& weight, std::span<const float> bias, MatView<const float> x, MatView<float> out) {
  if (x.rows == 0) return;
  const quant::QuantType& type = type_of(weight);
  std::vector<float> weight_row(static_cast<size_t>(weight.cols));
  for (int64_t r = 0; r < weight.rows; ++r) {
    type.decode(weight.row(r), weight_row.data(), weight.cols);
    const float offset = bias.empty() ? 0.0f : bias[static_cast<size_t>(r)];
    for (int64_t i = 0; i < x.rows; ++i) out.row(i)[r] = dot(weight_row.data(), x.row(i), weight.cols) + offset;
  }
}

}  // namespace tempo9::kernels::reference
