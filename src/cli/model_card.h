// What the model lists of the APIs say of a model file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gguf/file.h"
#include "models/model.h"
#include "server/server.h"

namespace tempo9::cli {

// `context_length`: that of the engine. The card keeps the file.
server::ModelCard make_model_card(std::shared_ptr<const gguf::File> file, const models::ModelInfo& info,
                                  std::string name, int64_t context_length);

}  // namespace tempo9::cli
