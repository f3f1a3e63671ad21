#include "cli/weight_use.h"

#include <variant>

#include "tensor/op_fields.h"

namespace tempo9::cli {
namespace {

class Collector {
 public:
  explicit Collector(size_t n_weights) : uses_(n_weights) {}

  void operator()(const tensor::Embed& op) { mark(op.table, &WeightUse::is_lookup); }
  void operator()(const tensor::MatMul& op) {
    mark(op.weight, &WeightUse::is_product);
    mark(op.bias, &WeightUse::is_vector);
  }
  void operator()(const tensor::Experts& op) {
    for (const tensor::WeightId id : {op.gate, op.up, op.down}) mark(id, &WeightUse::is_product);
    for (const tensor::WeightId id : {op.gate_bias, op.up_bias, op.down_bias, op.expert_scale}) {
      mark(id, &WeightUse::is_vector);
    }
  }
  void operator()(const auto& op) { tensor::visit_fields(op, *this); }

  // The weights of any other op are vectors; its other fields do not matter here.
  void weight(tensor::WeightId id) { mark(id, &WeightUse::is_vector); }
  void input(tensor::ValueId) {}
  void output(tensor::ValueId) {}
  void frequencies(int32_t) {}
  void axes(int32_t) {}
  void kv_layer(int32_t) {}
  void state_layer(int32_t) {}
  void plain(const auto&) {}

  std::vector<WeightUse> take() && { return std::move(uses_); }

 private:
  void mark(tensor::WeightId id, bool WeightUse::*use) {
    if (id != tensor::kNone) uses_[static_cast<size_t>(id)].*use = true;
  }

  std::vector<WeightUse> uses_;
};

}  // namespace

std::vector<WeightUse> weight_uses(const tensor::Program& program) {
  Collector collector(program.weights.size());
  for (const tensor::Op& op : program.ops) std::visit(collector, op);
  return std::move(collector).take();
}

std::string_view product_kernel(const kernels::Isa& isa, tensor::DType dtype) {
  if (kernels::act_format(dtype) == kernels::ActFormat::kF32) return "f32";
  return isa.matmul->is_native(dtype) ? "int8" : "int8 after unpacking";
}

}  // namespace tempo9::cli
