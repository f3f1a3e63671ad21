// The model that the main command serves, and everything that has to be there before an engine can run it. The parts
// are here one by one too: `tempo9 doctor` tries each and says what became of it.
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

// What the flags and the environment ask for, checked before anything is loaded.
struct ServeSettings {
  kv::disk::Options disk;  // without the model's identity
  engine::SpeculationOptions speculation;
};

// Errors: kInvalidInput, naming the flag or variable and what it may be.
Result<ServeSettings> read_serve_settings(const ServeOptions& options);

// In the order of creation; destroyed in reverse.
struct ServedModel {
  std::string name;  // what the model lists report
  std::shared_ptr<const gguf::File> file;
  models::Model model;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  chat::ChatFormat chat_format;
  std::unique_ptr<backends::Backend> backend;
  engine::EngineOptions engine_options;
  std::string tower = {};  // where images are looked at, for people; empty without --tower
};

// Errors name what is wrong with the file, the flags or the store, and the way out.
Result<ServedModel> load_served_model(const ServeOptions& options, ServeSettings settings);

// Errors: kInvalidInput for an instruction set that there is not, or not here.
Result<std::unique_ptr<backends::Backend>> make_backend(const ServeOptions& options);

// The model file's own template, or the one that the user gives instead.
Result<chat::ChatFormat> make_chat_format(const ServeOptions& options, const gguf::Metadata& metadata,
                                          const tokenizer::Tokenizer& tokenizer);

// `settings.disk` gets the model's identity. Errors: kUnsupported when the backend lacks the type of keys and values.
Result<engine::EngineOptions> make_engine_options(const ServeOptions& options, ServeSettings settings,
                                                  const models::Model& model, const backends::Backend& backend);

// What the user should know and can do without: one log line each.
void log_warnings(const ServedModel& served);

}  // namespace tempo9::cli
