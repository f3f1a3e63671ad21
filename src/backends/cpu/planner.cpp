#include "backends/cpu/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "tensor/op_fields.h"

namespace tempo9::backends::cpu {

using kernels::ActFormat;
using tensor::kNone;
using tensor::RowSet;
using tensor::ValueId;
using tensor::WeightId;

namespace {

constexpr size_t kCellAlignment = 64;
size_t align(size_t bytes) { return (bytes + kCellAlignment - 1) / kCellAlignment * kCellAlignment; }

// Whether every value that an operation reads has been made.
struct Inputs {
  const std::vector<CellId>& value_cells;
  bool are_made = true;

  void input(ValueId id) { are_made = are_made && value_cells[static_cast<size_t>(id)] >= 0; }
  void output(ValueId) {}
  void weight(WeightId) {}
  void frequencies(int32_t) {}
  void axes(int32_t) {}
  void kv_layer(int32_t) {}
  void state_layer(int32_t) {}
  void plain(const auto&) {}
};

struct WorksOn {
  const tensor::Program& program;
  RowSet operator()(const tensor::KvWrite&) const { return RowSet::kBatch; }
  RowSet operator()(const auto& op) const { return program.values[static_cast<size_t>(op.out)].rows; }
};

enum class Kind : uint8_t { kRow, kProduct, kStages };
struct KindOf {
  Kind operator()(const tensor::MatMul&) const { return Kind::kProduct; }
  Kind operator()(const tensor::Attention&) const { return Kind::kStages; }
  Kind operator()(const tensor::Experts&) const { return Kind::kStages; }
  Kind operator()(const tensor::CausalConv&) const { return Kind::kStages; }
  Kind operator()(const tensor::DeltaNet&) const { return Kind::kStages; }
  Kind operator()(const auto&) const { return Kind::kRow; }
};
Kind kind_of(const tensor::Op& op) { return std::visit(KindOf{}, op); }

}  // namespace

Planner::Planner(const tensor::Program& program, const Weights& weights, const kernels::Isa& isa,
                 const PlanOptions& options)
    : program_(program),
      weights_(weights),
      isa_(isa),
      options_(options),
      done_(program.ops.size(), false),
      value_cells_(program.values.size(), -1) {
  for (const tensor::Op& op : program.ops) {
    if (const auto* write = std::get_if<tensor::KvWrite>(&op)) pending_writes_.push_back(write->kv_layer);
  }
}

Result<Plan> Planner::plan() && {
  size_t n_left = program_.ops.size();
  while (n_left > 0) {
    T9_TRY(n_emitted, options_.fused ? emit_ready() : emit_next());
    T9_CHECK_MSG(n_emitted > 0, "operations of the program wait for each other");
    n_left -= n_emitted;
  }
  place_cells();
  return std::move(plan_);
}

// Row operations first, since they join the step before; then all products at once; then one of the others.
Result<size_t> Planner::emit_ready() {
  size_t n_emitted = 0;
  for (size_t i = 0; i < done_.size(); ++i) {
    if (!is_ready(i) || kind_of(program_.ops[i]) != Kind::kRow) continue;
    T9_TRY_VOID(emit_row_op(i));
    ++n_emitted;
  }
  if (n_emitted > 0) return n_emitted;
  std::vector<size_t> products;
  for (size_t i = 0; i < done_.size(); ++i) {
    if (!is_ready(i) || kind_of(program_.ops[i]) != Kind::kProduct) continue;
    if (products.empty() || row_set(i) == row_set(products.front())) products.push_back(i);
  }
  if (!products.empty()) return emit_products(products);
  for (size_t i = 0; i < done_.size() && n_emitted == 0; ++i) {
    if (!is_ready(i)) continue;
    T9_TRY_VOID(emit_stages(i));
    ++n_emitted;
  }
  return n_emitted;
}

// The first operation that is left, in steps of its own.
Result<size_t> Planner::emit_next() {
  const auto next = static_cast<size_t>(std::ranges::find(done_, false) - done_.begin());
  switch (kind_of(program_.ops[next])) {
    case Kind::kRow:
      T9_TRY_VOID(emit_row_op(next));
      break;
    case Kind::kProduct:
      return emit_products({next});
    case Kind::kStages:
      T9_TRY_VOID(emit_stages(next));
      break;
  }
  return size_t{1};
}

bool Planner::is_ready(size_t index) const {
  if (done_[index]) return false;
  const tensor::Op& op = program_.ops[index];
  Inputs inputs{.value_cells = value_cells_};
  std::visit([&](const auto& fields) { tensor::visit_fields(fields, inputs); }, op);
  if (!inputs.are_made) return false;
  const auto* attention = std::get_if<tensor::Attention>(&op);
  return attention == nullptr || std::ranges::count(pending_writes_, attention->kv_layer) == 0;
}

RowSet Planner::row_set(size_t index) const { return std::visit(WorksOn{program_}, program_.ops[index]); }

CellId Planner::new_cell(RowSet rows, size_t row_bytes) {
  plan_.cells.push_back(Cell{.rows = rows, .row_bytes = align(row_bytes)});
  uses_.push_back({current_step(), current_step()});
  return static_cast<CellId>(plan_.cells.size() - 1);
}

CellId Planner::make(ValueId id) {
  const CellId cell = new_cell(value(id).rows, static_cast<size_t>(value(id).cols) * sizeof(float));
  if (id == program_.logits) plan_.cells.back().place = Cell::Place::kLogits;
  if (id == program_.hidden) plan_.cells.back().place = Cell::Place::kHidden;
  value_cells_[static_cast<size_t>(id)] = cell;
  plan_.steps.back().values.emplace_back(id, cell);
  return cell;
}

CellId Planner::use_cell(CellId cell) {
  Use& use = uses_[static_cast<size_t>(cell)];
  use.last = std::max(use.last, current_step());
  return cell;
}

const float* Planner::vector(WeightId id) const {
  return id == kNone ? nullptr : weights_.vectors[static_cast<size_t>(id)].data();
}

std::unexpected<Error> Planner::unreadable(WeightId id) const {
  return fail(ErrorCode::kUnsupported, fmt::format("weight {}: the cpu backend cannot use type {} with depth {} here",
                                                   program_.weights[static_cast<size_t>(id)].name,
                                                   tensor::dtype_name(weight(id).dtype), weight(id).depth));
}

// First fit by the order in which cells are made: a cell's memory is free for cells of later steps once its last reader
// is done.
void Planner::place_cells() {
  struct Placed {
    size_t begin, end, free_after;
  };
  std::vector<Placed> live;  // by address
  std::vector<size_t> order(plan_.cells.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [this](size_t i) { return uses_[i].first; });
  for (const size_t i : order) {
    Cell& cell = plan_.cells[i];
    std::erase_if(live, [&](const Placed& placed) { return placed.free_after < uses_[i].first; });
    size_t offset = 0;
    auto before = live.begin();
    while (before != live.end() && before->begin < offset + cell.row_bytes) offset = (before++)->end;
    cell.offset = offset;
    live.insert(before, {offset, offset + cell.row_bytes, uses_[i].last});
    plan_.bytes_per_row = std::max(plan_.bytes_per_row, offset + cell.row_bytes);
  }
}

Result<Plan> make_plan(const tensor::Program& program, const Weights& weights, const kernels::Isa& isa,
                       const PlanOptions& options) {
  return Planner(program, weights, isa, options).plan();
}

}  // namespace tempo9::backends::cpu
