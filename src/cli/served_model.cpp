#include "cli/served_model.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "base/mapped_file.h"
#include "chat/known_templates.h"
#include "cli/cache_folder.h"
#include "cli/graph_cache.h"
#include "cli/kv_disk.h"
#include "cli/kv_type.h"
#include "cli/memory.h"
#include "cli/ollama_store.h"
#include "cli/prefault.h"

namespace tempo9::cli {

namespace {

// The file to load and the name that it is served under, unless the user gives another.
struct Source {
  std::string path;
  std::string name;
};

Source file_source(const std::string& gguf) {
  const std::filesystem::path path(gguf);
  return {gguf, path.extension() == ".gguf" ? path.stem().string() : path.filename().string()};
}

// A blob's name says nothing, so it is loaded through a link that has the model's.
Result<Source> ollama_source(const ServeOptions& options) {
  T9_TRY(found, find_ollama_model(ollama_store_path(), options.ollama));
  if (found.has_projector && options.tower.empty()) {
    spdlog::info(
        "event=projector_left_out projector={} what=\"{} can look at images; tempo9 needs --tower for that, a folder "
        "that `tempo9 tower export` makes of the projector\"",
        found.projector.string(), found.name);
  }
  const std::filesystem::path folder = cache_folder("ollama");
  if (folder.empty()) return Source{found.blob.string(), found.name};
  const auto link = link_ollama_model(found, folder);
  if (link) return Source{link->string(), found.name};
  spdlog::warn("event=ollama_link_not_made what=\"{}\"", link.error().message());
  return Source{found.blob.string(), found.name};
}

Result<Source> find_source(const ServeOptions& options) {
  Source source = file_source(options.gguf);
  if (!options.ollama.empty()) {
    T9_TRY(found, ollama_source(options));
    source = std::move(found);
  }
  if (!options.name.empty()) source.name = options.name;
  return source;
}

// The flag, and the acceptance below which a request stops guessing for a while: AS_SPEC_MIN_ACCEPT.
Result<engine::SpeculationOptions> read_speculation(const std::string& depth) {
  engine::SpeculationOptions options{.max_depth = speculation_depth(depth)};
  const char* text = std::getenv("AS_SPEC_MIN_ACCEPT");
  if (text == nullptr) return options;
  double share = 0.0;
  if (!CLI::detail::lexical_cast(text, share) || !(share >= 0.0 && share <= 1.0)) {
    return fail(ErrorCode::kInvalidInput, fmt::format("AS_SPEC_MIN_ACCEPT is '{}'; it must be from 0 to 1", text));
  }
  options.min_acceptance = share;
  return options;
}

// Without its control tokens a template would be text to the model.
Result<void> check_fits(const chat::KnownTemplate& known, const tokenizer::Tokenizer& tokenizer) {
  const chat::KnownTemplate* fitting = chat::fitting_template(tokenizer);
  if (fitting == &known) return {};
  return fail(ErrorCode::kInvalidInput,
              fmt::format("--chat-template {0}: the model's vocabulary has no {1}; {2} (a file of this name: ./{0})",
                          known.name, fmt::join(known.tokens, ", "),
                          fitting ? fmt::format("it has what {} needs", fitting->name)
                                  : "it has what none of the named templates needs"));
}

}  // namespace

Result<ServeSettings> read_serve_settings(const ServeOptions& options) {
  T9_TRY(disk, read_kv_disk_options());
  T9_TRY(speculation, read_speculation(options.speculation));
  return ServeSettings{.disk = std::move(disk), .speculation = speculation};
}

Result<std::unique_ptr<backends::Backend>> make_backend(const ServeOptions& options) {
  if (options.backend == "reference") return backends::make_reference_backend();
  return backends::make_cpu_backend({.n_threads = options.n_threads, .isa = options.isa});
}

Result<chat::ChatFormat> make_chat_format(const ServeOptions& options, const gguf::Metadata& metadata,
                                          const tokenizer::Tokenizer& tokenizer) {
  if (options.chat_template.empty()) return chat::ChatFormat::create(metadata, tokenizer);
  const auto text = [&](std::optional<int32_t> id) { return std::string(id ? tokenizer.token_text(*id) : ""); };
  if (const chat::KnownTemplate* known = chat::find_known_template(options.chat_template)) {
    T9_TRY_VOID(check_fits(*known, tokenizer));
    return chat::ChatFormat::from_source(known->source, text(tokenizer.bos()), text(tokenizer.eos()));
  }
  T9_TRY(file, MappedFile::open(options.chat_template));
  const auto bytes = file.bytes();
  chat::ChatFormat format = chat::ChatFormat::from_source({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                                          text(tokenizer.bos()), text(tokenizer.eos()));
  if (!format.problem().empty()) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: {}", options.chat_template, format.problem()));
  }
  return format;
}

Result<engine::EngineOptions> make_engine_options(const ServeOptions& options, ServeSettings settings,
                                                  const models::Model& model, const backends::Backend& backend) {
  T9_TRY(kv_type, choose_kv_type(backend.kv_types(), options.kv_type));
  if (!settings.disk.root.empty()) settings.disk.identity = kv_identity(model);
  return engine::EngineOptions{
      .context_length = std::min(options.max_length, model.info.context_length),
      .max_batch = options.max_batch,
      .kv_type = kv_type,
      .memory_bytes = options.memory_bytes > 0 ? options.memory_bytes : default_memory_bytes(*model.file),
      .disk = std::move(settings.disk),
      .speculation = settings.speculation};
}

// What costs nothing to check comes before what takes time to load.
Result<ServedModel> load_served_model(const ServeOptions& options, ServeSettings settings) {
  T9_TRY(backend, make_backend(options));
  T9_TRY(source, find_source(options));
  T9_TRY(opened, gguf::File::open(source.path));
  std::shared_ptr<const gguf::File> file = std::move(opened);
  T9_TRY(model, load_model(file, options.graph));
  T9_TRY(tokenizer, tokenizer::Tokenizer::create(file->metadata()));
  T9_TRY(chat_format, make_chat_format(options, file->metadata(), *tokenizer));
  if (!fit_memory(model.weights)) {
    spdlog::warn("event=weights_exceed_memory what=\"{}\"", describe_misfit(model.weights));
  }
  prefault(model.weights);
  T9_TRY(engine_options, make_engine_options(options, std::move(settings), model, *backend));
  return ServedModel{std::move(source.name), std::move(file),    std::move(model),         std::move(tokenizer),
                     std::move(chat_format), std::move(backend), std::move(engine_options)};
}

void log_warnings(const ServedModel& served) {
  for (const std::string& warning : served.model.warnings) spdlog::warn("event=model_warning what=\"{}\"", warning);
  for (const std::string& warning : served.tokenizer->warnings()) {
    spdlog::warn("event=tokenizer_warning what=\"{}\"", warning);
  }
  if (!served.chat_format.problem().empty()) {
    spdlog::warn("event=no_chat_template what=\"{}\"", served.chat_format.problem());
  } else {
    spdlog::info("event=chat_template tool_dialect={}", served.chat_format.dialect().name);
  }
}

}  // namespace tempo9::cli
