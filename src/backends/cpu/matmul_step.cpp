// Matmul steps: chunks of (panel of weight rows, block of activation rows) over all products of the step. A chunk never
// splits a sum, so neither the chunking nor the thread that takes one can change a bit.
#include <algorithm>

#include "backends/cpu/chunk_sizes.h"
#include "backends/cpu/product.h"

namespace tempo9::backends::cpu {
namespace {

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
    if (n_rows <= kFewRows) index = chunk_in_turn(index, n_panels, pass.n_workers());
    auto group = step.groups.begin();
    while (true) {
      const int64_t n = n_parts(group->products.front().weight.rows, panel_rows(*group));
      if (index < n) break;
      index -= n;
      ++group;
    }
    const int64_t begin = index * panel_rows(*group);
    const tensor::IndexRange panel{begin, std::min(group->products.front().weight.rows, begin + panel_rows(*group))};
    for (const Product& product : group->products) {
      multiply(product, product.weight, product.bias, panel, slice(act_rows(product, pass), rows),
               slice(pass.view(product.out, product.weight.rows), rows), pass, worker);
    }
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
