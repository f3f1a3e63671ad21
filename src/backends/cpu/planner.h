// Makes a plan (plan.h) of one program. Where what is: planner.cpp order of operations and cells, row_ops.cpp
// operations on one row, products.cpp matrix products, stages.cpp attention, experts and recurrent layers.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cpu/plan.h"
#include "base/check.h"

namespace tempo9::backends::cpu {

class Planner {
 public:
  Planner(const tensor::Program& program, const Weights& weights, const kernels::Isa& isa, const PlanOptions& options);
  Result<Plan> plan() &&;

 private:
  // --- Order. An emit function gives the number of operations that it has done.
  Result<size_t> emit_ready();
  Result<size_t> emit_next();
  Result<void> emit_row_op(size_t index);
  Result<size_t> emit_products(const std::vector<size_t>& indices);
  Result<void> emit_stages(size_t index);
  bool is_ready(size_t index) const;
  tensor::RowSet row_set(size_t index) const;

  // --- Row operations
  RowStep& row_step(tensor::RowSet rows);
  Result<RowOp> bind(const tensor::Embed& op);
  Result<RowOp> bind(const tensor::RmsNorm& op);
  Result<RowOp> bind(const tensor::Add& op);
  Result<RowOp> bind(const tensor::Rope& op);
  Result<RowOp> bind(const tensor::KvWrite& op);
  Result<RowOp> bind(const tensor::GatedActivation& op);
  Result<RowOp> bind(const tensor::SelectOutputs& op);
  Result<RowOp> bind(const tensor::SoftCap& op);
  Result<RowOp> bind(const tensor::Scale& op);
  Result<RowOp> bind(const tensor::TakeColumns& op);
  Result<RowOp> bind(const tensor::Concat& op);
  Result<RowOp> bind(const tensor::GateRows& op);
  Result<RowOp> bind(const tensor::PositionScale& op);
  Result<RowOp> bind(const tensor::Input& op);
  Result<RowOp> bind(const tensor::AddEmbedding& op);
  Result<RowOp> bind(const auto&) { T9_CHECK_MSG(false, "not a row operation"); }
  CellId angle_cell(const tensor::Rope& op);

  // --- Products
  Result<Product> bind_product(const tensor::MatMul& op, tensor::RowSet rows);
  Result<Product> bind_weight(tensor::WeightId id, tensor::WeightId bias);
  CellId act_cell(tensor::ValueId id, kernels::ActFormat format, tensor::RowSet rows);
  size_t join_gated(std::vector<ProductGroup>& groups);

  // --- Stages
  Result<void> emit(const tensor::Attention& op);
  Result<void> emit(const tensor::Experts& op);
  Result<ExpertsStep> bind_experts(const tensor::Experts& op);
  Result<void> emit(const tensor::CausalConv& op);
  Result<void> emit(const tensor::DeltaNet& op);
  Result<void> emit(const auto&) { T9_CHECK_MSG(false, "not an operation with stages of its own"); }

  // --- Cells. A cell is made by the current step, which is the last of the plan so far.
  CellId new_cell(tensor::RowSet rows, size_t row_bytes);
  CellId make(tensor::ValueId id);
  CellId use_cell(CellId cell);
  CellId use(tensor::ValueId id) { return use_cell(value_cells_[static_cast<size_t>(id)]); }
  void place_cells();

  size_t current_step() const { return plan_.steps.size() - 1; }
  const tensor::Value& value(tensor::ValueId id) const { return program_.values[static_cast<size_t>(id)]; }
  const tensor::WeightView& weight(tensor::WeightId id) const { return weights_.views[static_cast<size_t>(id)]; }
  const float* vector(tensor::WeightId id) const;  // null when absent
  std::unexpected<Error> unreadable(tensor::WeightId id) const;

  const tensor::Program& program_;
  const Weights& weights_;
  const kernels::Isa& isa_;
  const PlanOptions options_;

  Plan plan_;
  std::vector<bool> done_;               // per operation
  std::vector<int32_t> pending_writes_;  // KV layers of the KvWrites to come
  std::vector<CellId> value_cells_;      // -1: not made yet
  std::map<std::pair<tensor::ValueId, kernels::ActFormat>, CellId> quantized_cells_;
  std::map<std::tuple<int32_t, int32_t, float>, CellId> angle_cells_;
  struct Use {
    size_t first;
    size_t last;
  };
  std::vector<Use> uses_;  // per cell: the step that makes it and the last that reads it
};

}  // namespace tempo9::backends::cpu
