// The model that the main command serves, and everything that has to be there before an engine can run it.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"
#include "base/result.h"
#include "chat/chat_format.h"
#include "cli/serve_options.h"
#include "engine/engine.h"
#include "gguf/file.h"
#include "models/model.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::cli {

// In the order of creation; destroyed in reverse.
struct ServedModel {
  std::string name;  // what the model lists report
  std::shared_ptr<const gguf::File> file;
  models::Model model;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  chat::ChatFormat chat_format;
  std::unique_ptr<backends::Backend> backend;
  engine::EngineOptions engine_options;
};

// Errors name what is wrong with the file, the flags or the store, and the way out.
// `disk` lacks the model's identity yet.
Result<ServedModel> load_served_model(const ServeOptions& options, kv::disk::Options disk);

// What the user should know and can do without: one log line each.
void log_warnings(const ServedModel& served);

}  // namespace tempo9::cli
