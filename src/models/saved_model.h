// A model without its weights, as bytes: the built programs, so that they need not be built again for the same file.
// Format: docs/graph-format.md.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "models/model.h"

namespace tempo9::models {

// Whether the bytes begin as a saved model does, of any version.
bool is_saved_model(std::span<const std::byte> bytes);

std::vector<std::byte> save_model(const Model& model);

// The model as load_model(file) would build it, from bytes that may be anything. Errors, which all mean that it has to
// be built: kInvalidInput, with the reason, when the bytes are damaged, were made by other code or for another file, or
// when their weights are not the file's.
Result<Model> restore_model(std::shared_ptr<const gguf::File> file, std::span<const std::byte> bytes);

}  // namespace tempo9::models
