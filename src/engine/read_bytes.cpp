#include "engine/read_bytes.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "tensor/kv_view.h"

namespace tempo9::engine {

ReadBytes::ReadBytes(const models::Model& model, const backends::Backend& backend,
                     std::span<const tensor::KvLayerSpec> layers, tensor::KvType type) {
  const tensor::Program& program = model.program;
  const auto bytes_of = [&](tensor::WeightId id) {
    return static_cast<uint64_t>(model.weights[static_cast<size_t>(id)].size_bytes());
  };
  for (const tensor::Op& op : program.ops) {
    if (const auto* product = std::get_if<tensor::MatMul>(&op)) {
      const bool is_of_outputs = program.values[static_cast<size_t>(product->x)].rows == tensor::RowSet::kOutputs;
      (is_of_outputs ? output_bytes_ : batch_bytes_) += bytes_of(product->weight);
    } else if (const auto* embed = std::get_if<tensor::Embed>(&op)) {
      row_bytes_ += model.weights[static_cast<size_t>(embed->table)].row_bytes;
    } else if (const auto* experts = std::get_if<tensor::Experts>(&op)) {
      const double n = static_cast<double>(program.weights[static_cast<size_t>(experts->gate)].depth);
      uint64_t bytes = bytes_of(experts->gate) + bytes_of(experts->down);
      if (experts->up != tensor::kNone) bytes += bytes_of(experts->up);
      experts_.push_back({.bytes = bytes, .used_share = static_cast<double>(experts->n_used) / n});
    }
  }
  for (const tensor::KvLayerSpec& layer : layers) {
    const backends::KvPageBytes page = backend.kv_page_bytes(layer, type);
    kv_layers_.push_back(
        {.window = layer.window, .token_bytes = static_cast<double>(page.k + page.v) / tensor::kPageTokens});
  }
}

uint64_t ReadBytes::weights(int64_t n_rows, int64_t n_outputs) const {
  uint64_t bytes = batch_bytes_ + static_cast<uint64_t>(n_rows) * row_bytes_ + (n_outputs > 0 ? output_bytes_ : 0);
  for (const ExpertLayer& layer : experts_) {
    const double chosen = 1.0 - std::pow(1.0 - layer.used_share, static_cast<double>(n_rows));
    bytes += static_cast<uint64_t>(chosen * static_cast<double>(layer.bytes));
  }
  return bytes;
}

uint64_t ReadBytes::kv(int64_t end) const {
  double bytes = 0.0;
  for (const KvLayer& layer : kv_layers_) {
    bytes += layer.token_bytes * static_cast<double>(layer.window > 0 ? std::min(end, layer.window) : end);
  }
  return static_cast<uint64_t>(bytes);
}

}  // namespace tempo9::engine
