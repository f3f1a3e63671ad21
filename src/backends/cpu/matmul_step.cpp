// Matmul steps: chunks of (panel of weight rows, block of activation rows) over all products of the step. A chunk never
// splits a sum, so neither the chunking nor the thread that takes one can change a bit.
#include <algorithm>

#include "backends/cpu/chunk_sizes.h"
#include "backends/cpu/pass.h"

namespace tempo9::backends::cpu {
namespace {

kernels::QuantizedRows rows_of(const kernels::QuantizedRows& x, tensor::IndexRange rows) {
  kernels::QuantizedRows part = x;
  part.q += rows.begin * x.cols;
  part.d += rows.begin * (x.cols / x.block());
  part.sums += rows.begin * (x.cols / x.sum_group());
  part.rows = rows.size();
  return part;
}

template <class T>
tensor::MatView<T> rows_of(const tensor::MatView<T>& x, tensor::IndexRange rows) {
  return {x.row(rows.begin), rows.size(), x.cols, x.stride};
}

void add_bias(const kernels::RowKernels& kernels, const float* bias, tensor::IndexRange cols,
              tensor::MatView<float> out) {
  for (int64_t r = 0; r < out.rows; ++r) {
    float* to = out.row(r) + cols.begin;
    kernels.add(to, bias + cols.begin, to, cols.size());
  }
}

void run_product(const Product& product, const Pass& pass, int worker, tensor::IndexRange panel,
                 tensor::IndexRange rows) {
  const tensor::WeightView& weight = product.weight;
  const tensor::MatView<float> out = rows_of(pass.view(product.out, weight.rows), rows);
  std::byte* scratch = pass.workers[static_cast<size_t>(worker)].scratch;
  if (product.quant != nullptr) {
    const kernels::QuantizedRows x = pass.quantized(product.x, product.format, weight.cols);
    product.quant(weight, panel, rows_of(x, rows), out, scratch);
  } else {
    const tensor::MatView<const float> x = pass.view(product.x, weight.cols);
    product.floating(weight, panel, rows_of(x, rows), out, scratch);
  }
  if (product.bias != nullptr) add_bias(*pass.isa.rows, product.bias, panel, out);
}

void run_gated(const GatedOp& op, const Pass& pass, tensor::IndexRange cols, tensor::IndexRange rows) {
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const auto at = [&](CellId cell) { return pass.row(cell, r) + cols.begin; };
    pass.isa.rows->gated(op.activation, at(op.gate), at(op.up), at(op.out), cols.size());
  }
}

// Panels of all groups, one after another, for one block of rows; then the next block, so that its activations stay in
// the cache while the weights pass by.
struct Chunking {
  const MatMulStep& step;
  int64_t n_rows;
  int64_t row_block;
  int64_t n_panels = 0;

  Chunking(const MatMulStep& s, int64_t rows) : step(s), n_rows(rows), row_block(rows) {
    for (const ProductGroup& group : s.groups) {
      n_panels += n_parts(group.products.front().weight.rows, panel_rows(group));
      if (rows > kFewRows) row_block = std::min(row_block, group.row_block);
    }
  }
  int64_t panel_rows(const ProductGroup& group) const {
    return n_rows <= kFewRows ? group.panel_few : group.panel_many;
  }
  int64_t size() const { return n_rows == 0 ? 0 : n_panels * n_parts(n_rows, row_block); }

  void run(int64_t chunk, const Pass& pass, int worker) const {
    const int64_t first_row = chunk / n_panels * row_block;
    const tensor::IndexRange rows{first_row, std::min(n_rows, first_row + row_block)};
    int64_t index = chunk % n_panels;
    auto group = step.groups.begin();
    while (true) {
      const int64_t n = n_parts(group->products.front().weight.rows, panel_rows(*group));
      if (index < n) break;
      index -= n;
      ++group;
    }
    const int64_t begin = index * panel_rows(*group);
    const tensor::IndexRange panel{begin, std::min(group->products.front().weight.rows, begin + panel_rows(*group))};
    for (const Product& product : group->products) run_product(product, pass, worker, panel, rows);
    if (group->gated) run_gated(*group->gated, pass, panel, rows);
  }
};

}  // namespace

int64_t n_chunks(const MatMulStep& step, const Pass& pass, int64_t phase) {
  return phase == 0 ? Chunking(step, pass.n_rows(step.rows)).size() : 0;
}

void run_chunk(const MatMulStep& step, const Pass& pass, int64_t, int64_t chunk, int worker) {
  Chunking(step, pass.n_rows(step.rows)).run(chunk, pass, worker);
}

}  // namespace tempo9::backends::cpu
