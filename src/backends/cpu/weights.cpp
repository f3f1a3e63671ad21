#include <fmt/format.h>

#include "backends/cpu/plan.h"
#include "base/check.h"

namespace tempo9::backends::cpu {
namespace {

// The weights that an operation reads as a plain vector of floats.
struct VectorWeights {
  std::vector<tensor::WeightId> operator()(const tensor::RmsNorm& op) const { return {op.weight}; }
  std::vector<tensor::WeightId> operator()(const tensor::MatMul& op) const { return {op.bias}; }
  std::vector<tensor::WeightId> operator()(const tensor::Attention& op) const { return {op.sinks}; }
  std::vector<tensor::WeightId> operator()(const tensor::Scale& op) const { return {op.by}; }
  std::vector<tensor::WeightId> operator()(const auto&) const { return {}; }
};

}  // namespace

Result<Weights> bind_weights(const tensor::Program& program, std::span<const tensor::WeightView> views) {
  T9_CHECK(views.size() == program.weights.size());
  Weights weights;
  weights.views.assign(views.begin(), views.end());
  weights.vectors.resize(views.size());
  for (const tensor::Op& op : program.ops) {
    for (const tensor::WeightId id : std::visit(VectorWeights{}, op)) {
      if (id == tensor::kNone) continue;
      const auto index = static_cast<size_t>(id);
      const tensor::WeightView& view = views[index];
      std::vector<float>& values = weights.vectors[index];
      if (!values.empty()) continue;
      const quant::QuantType* type = quant::find_type(view.dtype);
      if (type == nullptr) {
        return fail(ErrorCode::kUnsupported, fmt::format("weight {}: the cpu backend cannot read type {}",
                                                         program.weights[index].name, tensor::dtype_name(view.dtype)));
      }
      values.resize(static_cast<size_t>(view.elements()));
      type->decode(view.data, values.data(), view.elements());
    }
  }
  return weights;
}

}  // namespace tempo9::backends::cpu
