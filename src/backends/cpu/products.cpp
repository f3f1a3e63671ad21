// Matrix products: those that do not need each other become one step.
#include <algorithm>

#include "backends/cpu/chunk_sizes.h"
#include "backends/cpu/planner.h"
#include "base/check.h"

namespace tempo9::backends::cpu {

using kernels::ActFormat;
using tensor::RowSet;
using tensor::ValueId;
using tensor::WeightId;

Result<size_t> Planner::emit_products(const std::vector<size_t>& indices) {
  size_t n_emitted = indices.size();
  // Inputs first: making one may add a row step.
  std::vector<Product> products;
  for (const size_t index : indices) {
    T9_TRY(product, bind_product(std::get<tensor::MatMul>(program_.ops[index]), row_set(index)));
    products.push_back(std::move(product));
    done_[index] = true;
  }
  Step& step = plan_.steps.emplace_back(MatMulStep{.rows = row_set(indices.front()), .groups = {}});
  auto& groups = std::get<MatMulStep>(step.work).groups;
  int64_t step_bytes = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    use_cell(products[i].x);
    products[i].out = make(std::get<tensor::MatMul>(program_.ops[indices[i]]).out);
    step_bytes += static_cast<int64_t>(products[i].weight.size_bytes());
    groups.push_back(ProductGroup{.products = {std::move(products[i])}, .gated = {}});
  }
  if (options_.fused) n_emitted += join_gated(groups);
  for (ProductGroup& group : groups) {
    const Product& first = group.products.front();
    group.panel_few = few_rows_panel(first.weight, step_bytes, options_.n_workers);
    group.panel_many = kManyRowsPanel;
    group.row_block = row_block(first.weight.cols, first.format);
  }
  return n_emitted;
}

Result<Product> Planner::bind_product(const tensor::MatMul& op, RowSet rows) {
  if (weight(op.weight).depth != 1) return unreadable(op.weight);
  T9_TRY(product, bind_weight(op.weight, op.bias));
  product.x = act_cell(op.x, product.format, rows);
  plan_.scratch_bytes = std::max(plan_.scratch_bytes, isa_.matmul->scratch_bytes(product.weight));
  return product;
}

Result<Product> Planner::bind_weight(WeightId id, WeightId bias) {
  const tensor::WeightView& view = weight(id);
  if (quant::find_type(view.dtype) == nullptr) return unreadable(id);
  Product product{.weight = view, .bias = vector(bias), .format = kernels::act_format(view.dtype)};
  if (product.format == ActFormat::kF32) {
    product.floating = isa_.matmul->floating(view.dtype);
  } else {
    product.quant = isa_.matmul->quant(view.dtype);
  }
  return product;
}

// The value as a product of this format reads it. It is quantised at most once per format.
CellId Planner::act_cell(ValueId id, ActFormat format, RowSet rows) {
  if (format == ActFormat::kF32) return value_cells_[static_cast<size_t>(id)];
  const auto [entry, is_new] = quantized_cells_.try_emplace({id, format}, -1);
  if (is_new) {
    const int64_t cols = value(id).cols;
    RowStep& step = row_step(rows);
    const CellId x = use(id);
    entry->second = new_cell(rows, quantized_bytes(format, 1, cols));
    step.ops.push_back(QuantizeOp{.x = x, .out = entry->second, .cols = cols, .format = format});
  }
  return entry->second;
}

// Moves the up product to the gate product of the same gated activation, and the activation with them.
size_t Planner::join_gated(std::vector<ProductGroup>& groups) {
  size_t n_joined = 0;
  for (size_t i = 0; i < done_.size(); ++i) {
    const auto* op = std::get_if<tensor::GatedActivation>(&program_.ops[i]);
    if (op == nullptr || !is_ready(i)) continue;
    const auto makes = [this](ValueId id) {
      return [cell = value_cells_[static_cast<size_t>(id)]](const ProductGroup& group) {
        return group.products.size() == 1 && group.products.front().out == cell;
      };
    };
    const auto gate = std::ranges::find_if(groups, makes(op->gate));
    const auto up = std::ranges::find_if(groups, makes(op->up));
    if (gate == groups.end() || up == groups.end() || gate == up) continue;
    gate->products.push_back(std::move(up->products.front()));
    gate->gated = GatedOp{.activation = op->activation,
                          .gate = gate->products.front().out,
                          .up = gate->products.back().out,
                          .out = make(op->out),
                          .cols = value(op->out).cols};
    groups.erase(up);
    done_[i] = true;
    ++n_joined;
  }
  return n_joined;
}

}  // namespace tempo9::backends::cpu
