// The memory plan: which values may lie in the same place.
#include <algorithm>
#include <array>
#include <variant>
#include <vector>

#include "base/check.h"
#include "graph/builder.h"

namespace tempo9::graph {
namespace {

using tensor::kNone;
using tensor::ValueId;

struct Uses {
  std::array<ValueId, 3> inputs = {kNone, kNone, kNone};
  ValueId output = kNone;
};

// One overload per op: a new op does not compile before it is listed here.
struct UsesOf {
  Uses operator()(const tensor::Embed& op) const { return {.output = op.out}; }
  Uses operator()(const tensor::RmsNorm& op) const { return {.inputs = {op.x, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::MatMul& op) const { return {.inputs = {op.x, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::Add& op) const { return {.inputs = {op.a, op.b, kNone}, .output = op.out}; }
  Uses operator()(const tensor::Rope& op) const { return {.inputs = {op.x, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::KvWrite& op) const { return {.inputs = {op.k, op.v, kNone}, .output = kNone}; }
  Uses operator()(const tensor::Attention& op) const { return {.inputs = {op.q, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::GatedActivation& op) const {
    return {.inputs = {op.gate, op.up, kNone}, .output = op.out};
  }
  Uses operator()(const tensor::SelectOutputs& op) const { return {.inputs = {op.x, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::SoftCap& op) const { return {.inputs = {op.x, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::Scale& op) const { return {.inputs = {op.x, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::TakeColumns& op) const { return {.inputs = {op.x, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::Concat& op) const { return {.inputs = {op.a, op.b, kNone}, .output = op.out}; }
  Uses operator()(const tensor::GateRows& op) const { return {.inputs = {op.gate, op.x, kNone}, .output = op.out}; }
  Uses operator()(const tensor::PositionScale& op) const { return {.inputs = {op.x, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::Experts& op) const { return {.inputs = {op.x, op.router, kNone}, .output = op.out}; }
  Uses operator()(const tensor::CausalConv& op) const { return {.inputs = {op.x, kNone, kNone}, .output = op.out}; }
  Uses operator()(const tensor::DeltaNet& op) const {
    return {.inputs = {op.qkv, op.beta, op.alpha}, .output = op.out};
  }
  Uses operator()(const tensor::Input& op) const { return {.output = op.out}; }
};

// For each value, the index of the last op that touches it; the end of the program for its results.
std::vector<size_t> last_uses(const tensor::Program& program) {
  std::vector<size_t> last(program.values.size(), 0);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Uses uses = std::visit(UsesOf{}, program.ops[i]);
    for (const ValueId id : {uses.inputs[0], uses.inputs[1], uses.inputs[2], uses.output}) {
      if (id != kNone) last[static_cast<size_t>(id)] = i;
    }
  }
  for (const ValueId result : {program.logits, program.hidden}) {
    if (result != kNone) last[static_cast<size_t>(result)] = program.ops.size();
  }
  return last;
}

class SlotPool {
 public:
  explicit SlotPool(tensor::MemoryPlan& plan) : plan_(plan) {}

  // The free slot of the row set that wastes or grows least, else a new one. Ties go to the lower index.
  int32_t take(const tensor::Value& value) {
    size_t best = is_free_.size();
    int64_t best_cost = 0;
    for (size_t slot = 0; slot < is_free_.size(); ++slot) {
      if (!is_free_[slot] || plan_.slot_rows[slot] != value.rows) continue;
      const int64_t cost = std::abs(plan_.slot_cols[slot] - value.cols);
      if (best == is_free_.size() || cost < best_cost) {
        best = slot;
        best_cost = cost;
      }
    }
    if (best == is_free_.size()) {
      is_free_.push_back(false);
      plan_.slot_cols.push_back(0);
      plan_.slot_rows.push_back(value.rows);
    }
    is_free_[best] = false;
    plan_.slot_cols[best] = std::max(plan_.slot_cols[best], value.cols);
    return static_cast<int32_t>(best);
  }

  void give_back(int32_t slot) { is_free_[static_cast<size_t>(slot)] = true; }

 private:
  tensor::MemoryPlan& plan_;
  std::vector<bool> is_free_;
};

}  // namespace

tensor::MemoryPlan plan_memory(const tensor::Program& program) {
  tensor::MemoryPlan plan;
  plan.slot_of_value.assign(program.values.size(), kNone);
  const std::vector<size_t> last = last_uses(program);
  SlotPool pool(plan);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Uses uses = std::visit(UsesOf{}, program.ops[i]);
    if (uses.output != kNone) {
      const size_t output = static_cast<size_t>(uses.output);
      T9_CHECK_MSG(plan.slot_of_value[output] == kNone, "a value is written twice: " + program.values[output].name);
      plan.slot_of_value[output] = pool.take(program.values[output]);
    }
    std::array<ValueId, 4> touched = {uses.inputs[0], uses.inputs[1], uses.inputs[2], uses.output};
    for (size_t k = 1; k < touched.size(); ++k) {  // a slot is given back once
      if (std::find(touched.begin(), touched.begin() + static_cast<std::ptrdiff_t>(k), touched[k]) !=
          touched.begin() + static_cast<std::ptrdiff_t>(k)) {
        touched[k] = kNone;
      }
    }
    for (const ValueId id : touched) {
      if (id == kNone) continue;
      const int32_t slot = plan.slot_of_value[static_cast<size_t>(id)];
      T9_CHECK_MSG(slot != kNone,
                   "a value is read before it is written: " + program.values[static_cast<size_t>(id)].name);
      if (last[static_cast<size_t>(id)] == i) pool.give_back(slot);
    }
  }
  return plan;
}

}  // namespace tempo9::graph
