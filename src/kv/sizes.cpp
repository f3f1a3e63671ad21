#include "kv/sizes.h"

namespace tempo9::kv {

size_t page_bytes(const backends::Backend& backend, std::span<const tensor::KvLayerSpec> layers, tensor::KvType type) {
  size_t total = 0;
  for (const tensor::KvLayerSpec& layer : layers) {
    const backends::KvPageBytes bytes = backend.kv_page_bytes(layer, type);
    total += bytes.k + bytes.v;
  }
  return total;
}

size_t state_bytes(std::span<const tensor::StateLayerSpec> layers) {
  size_t floats = 0;
  for (const tensor::StateLayerSpec& layer : layers) floats += static_cast<size_t>(layer.floats());
  return floats * sizeof(float);
}

}  // namespace tempo9::kv
