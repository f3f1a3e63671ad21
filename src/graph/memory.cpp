// The memory plan: which values may lie in the same place.
#include <algorithm>
#include <variant>
#include <vector>

#include "base/check.h"
#include "graph/builder.h"
#include "tensor/op_fields.h"

namespace tempo9::graph {
namespace {

using tensor::kNone;
using tensor::ValueId;

// The values that an op reads and makes.
struct Uses {
  explicit Uses(const tensor::Op& op) {
    std::visit([this](const auto& fields) { tensor::visit_fields(fields, *this); }, op);
  }

  std::vector<ValueId> touched;  // each once; none is kNone
  ValueId made = kNone;

  void input(ValueId id) {
    if (std::find(touched.begin(), touched.end(), id) == touched.end()) touched.push_back(id);
  }
  void output(ValueId id) {
    made = id;
    input(id);
  }
  void weight(tensor::WeightId) {}
  void frequencies(int32_t) {}
  void axes(int32_t) {}
  void kv_layer(int32_t) {}
  void state_layer(int32_t) {}
  void plain(const auto&) {}
};

// For each value, the index of the last op that touches it; the end of the program for its results.
std::vector<size_t> last_uses(const tensor::Program& program) {
  std::vector<size_t> last(program.values.size(), 0);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (const ValueId id : Uses(program.ops[i]).touched) last[static_cast<size_t>(id)] = i;
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
    const Uses uses(program.ops[i]);
    if (uses.made != kNone) {
      const size_t made = static_cast<size_t>(uses.made);
      T9_CHECK_MSG(plan.slot_of_value[made] == kNone, "a value is written twice: " + program.values[made].name);
      plan.slot_of_value[made] = pool.take(program.values[made]);
    }
    for (const ValueId id : uses.touched) {
      const int32_t slot = plan.slot_of_value[static_cast<size_t>(id)];
      T9_CHECK_MSG(slot != kNone,
                   "a value is read before it is written: " + program.values[static_cast<size_t>(id)].name);
      if (last[static_cast<size_t>(id)] == i) pool.give_back(slot);
    }
  }
  return plan;
}

}  // namespace tempo9::graph
