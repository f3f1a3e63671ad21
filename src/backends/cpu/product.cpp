#include "backends/cpu/product.h"

namespace tempo9::backends::cpu {

ActRows act_rows(const Product& product, const Pass& pass) {
  const int64_t cols = product.weight.cols;
  if (product.quant != nullptr) return {.quantized = pass.quantized(product.x, product.format, cols), .floats = {}};
  const tensor::MatView<float> x = pass.view(product.x, cols);
  return {.quantized = {}, .floats = {.x = x.data, .rows = x.rows, .cols = cols, .stride = x.stride}};
}

ActRows slice(const ActRows& x, tensor::IndexRange rows) {
  ActRows part = x;
  kernels::QuantizedRows& q = part.quantized;
  q.q += rows.begin * q.cols;
  q.d += rows.begin * (q.cols / q.block());
  q.sums += rows.begin * (q.cols / q.sum_group());
  part.floats.x += rows.begin * part.floats.stride;
  q.rows = part.floats.rows = rows.size();
  return part;
}

ActRows pick(const ActRows& x, const int32_t* rows, int64_t n) {
  ActRows part = x;
  part.quantized.picked = part.floats.picked = rows;
  part.quantized.rows = part.floats.rows = n;
  return part;
}

void multiply(const Product& product, const tensor::WeightView& weight, const float* bias,
              tensor::IndexRange weight_rows, const ActRows& x, tensor::MatView<float> out, const Pass& pass,
              int worker) {
  std::byte* scratch = pass.workers[static_cast<size_t>(worker)].scratch;
  if (product.quant != nullptr) {
    product.quant(weight, weight_rows, x.quantized, out, scratch);
  } else {
    product.floating(weight, weight_rows, x.floats, out, scratch);
  }
  if (bias == nullptr) return;
  for (int64_t r = 0; r < out.rows; ++r) {
    float* to = out.row(r) + weight_rows.begin;
    pass.isa.rows->add(to, bias + weight_rows.begin, to, weight_rows.size());
  }
}

}  // namespace tempo9::backends::cpu
