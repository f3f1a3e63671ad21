#include <fmt/format.h>

#include <algorithm>

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
  std::vector<tensor::WeightId> operator()(const tensor::Experts& op) const {
    return {op.gate_bias, op.up_bias, op.down_bias, op.expert_scale};
  }
  std::vector<tensor::WeightId> operator()(const tensor::CausalConv& op) const { return {op.weight}; }
  std::vector<tensor::WeightId> operator()(const tensor::DeltaNet& op) const { return {op.a, op.dt}; }
  std::vector<tensor::WeightId> operator()(const auto&) const { return {}; }
};

// The weights that an operation multiplies rows with.
struct ProductWeights {
  std::vector<tensor::WeightId> operator()(const tensor::MatMul& op) const { return {op.weight}; }
  std::vector<tensor::WeightId> operator()(const tensor::Experts& op) const { return {op.gate, op.up, op.down}; }
  std::vector<tensor::WeightId> operator()(const auto&) const { return {}; }
};

// The weights of a step as they are read at run time: products and lookup tables.
template <class F>
void for_each_weight(Step& step, F&& f) {
  if (auto* rows = std::get_if<RowStep>(&step.work)) {
    for (RowOp& op : rows->ops) {
      if (auto* embed = std::get_if<EmbedOp>(&op)) f(embed->table);
    }
  } else if (auto* products = std::get_if<MatMulStep>(&step.work)) {
    for (ProductGroup& group : products->groups) {
      for (Product& product : group.products) f(product.weight);
    }
  } else if (auto* experts = std::get_if<ExpertsStep>(&step.work)) {
    for (Product* product : {&experts->gate, &experts->up, &experts->down}) f(product->weight);
  }
}

// From a row per column of the convolution to a row per tap.
std::vector<float> by_tap(const std::vector<float>& taps, int64_t kernel) {
  const auto n_taps = static_cast<size_t>(kernel);
  const size_t n_cols = taps.size() / n_taps;
  std::vector<float> result(taps.size());
  for (size_t i = 0; i < taps.size(); ++i) result[i % n_taps * n_cols + i / n_taps] = taps[i];
  return result;
}

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
      if (std::holds_alternative<tensor::CausalConv>(op)) values = by_tap(values, view.cols);
    }
  }
  return weights;
}

std::vector<tensor::WeightId> product_weights(const tensor::Program& program) {
  std::vector<tensor::WeightId> ids;
  for (const tensor::Op& op : program.ops) {
    for (const tensor::WeightId id : std::visit(ProductWeights{}, op)) {
      if (id != tensor::kNone && std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

void exchange_weight(Plan& plan, const tensor::WeightView& weight, const tensor::WeightView& copy) {
  const auto begin = reinterpret_cast<uintptr_t>(weight.data);
  const auto end = begin + weight.size_bytes();
  for (Step& step : plan.steps) {
    for_each_weight(step, [&](tensor::WeightView& view) {
      const auto address = reinterpret_cast<uintptr_t>(view.data);
      if (address < begin || address >= end) return;
      view.data = copy.data + (address - begin);
      view.layout = copy.layout;
      view.is_mapped = copy.is_mapped;
    });
  }
}

}  // namespace tempo9::backends::cpu
