// What a model's cache costs, in bytes.
#pragma once

#include <cstddef>
#include <span>

#include "backends/backend.h"
#include "tensor/program.h"

namespace tempo9::kv {

// K and V of a page, over all layers. REQUIRES: the backend holds `type`.
size_t page_bytes(const backends::Backend& backend, std::span<const tensor::KvLayerSpec> layers, tensor::KvType type);
// The recurrent state of one sequence, over all layers.
size_t state_bytes(std::span<const tensor::StateLayerSpec> layers);

}  // namespace tempo9::kv
