// `tempo9 doctor`: what would happen if this machine served this model with these flags, before it happens. Each part
// of serving is tried with the code that serving runs; nothing is written, and no weight is read.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/buffer.h"
#include "base/utf8.h"
#include "cli/cache_folder.h"
#include "cli/commands.h"
#include "cli/main_dtype.h"
#include "cli/memory.h"
#include "cli/model_argument.h"
#include "cli/ollama_store.h"
#include "cli/served_model.h"
#include "engine/engine.h"
#include "server/server.h"
#include "tensor/kv_type_names.h"
#include "vision/tower.h"

namespace tempo9::cli {
namespace {

enum class Level : uint8_t { kOk, kWarn, kFail };

// One line for each thing that was looked at, printed as it is found.
class Report {
 public:
  void section(std::string_view title) { fmt::print("{}\n", title); }

  void add(Level level, std::string_view subject, const std::string& text) {
    constexpr std::string_view kMarks[] = {"ok  ", "note", "FAIL"};
    const std::string line = sanitize_utf8(text);
    fmt::print("  {}  {:<12}  {}\n", paint(level, kMarks[static_cast<size_t>(level)]), subject, line);
    if (level == Level::kFail && problem_.empty()) problem_ = line;
  }

  void add(std::string_view subject, const Error& error) { add(Level::kFail, subject, error.message()); }

  bool has_failed() const { return !problem_.empty(); }
  // What the first failure was.
  const std::string& problem() const { return problem_; }

  std::string paint(Level level, std::string_view text) const {
    constexpr std::string_view kColours[] = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};
    if (!is_terminal_) return std::string(text);
    return fmt::format("{}{}\x1b[0m", kColours[static_cast<size_t>(level)], text);
  }

 private:
  const bool is_terminal_ = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  std::string problem_;
};

std::string human(uint64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

// ---- the machine

void check_memory(Report& report) {
  const uint64_t available = available_memory_bytes();
  report.add(Level::kOk, "memory",
             fmt::format("{}{}", human(usable_memory_bytes()),
                         available > 0 ? fmt::format(", {} of it not in use now", human(available)) : ""));
}

// The folder itself, or the nearest one above it that is there.
std::filesystem::path nearest_folder(std::filesystem::path path) {
  std::error_code error;
  while (!std::filesystem::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

void check_folder(Report& report, std::string_view subject, const std::filesystem::path& folder,
                  std::string_view without) {
  if (folder.empty()) {
    return report.add(Level::kWarn, subject, fmt::format("neither HOME nor XDG_CACHE_HOME is set: {}", without));
  }
  const std::filesystem::path there = nearest_folder(folder);
  if (access(there.c_str(), W_OK | X_OK) != 0) {
    return report.add(Level::kWarn, subject, fmt::format("{} cannot be written: {}", there.string(), without));
  }
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(there, error);
  report.add(Level::kOk, subject,
             fmt::format("{}{}", folder.string(), error ? "" : fmt::format(", {} free", human(space.available))));
}

void check_caches(Report& report, const ServeSettings& settings) {
  check_folder(report, "graph cache", cache_folder("graph"), "a model's graph is built at each start");
  if (settings.disk.root.empty()) {
    return report.add(Level::kOk, "KV on disk", "off: the first request after a restart reads its prompt again");
  }
  check_folder(report, "KV on disk", settings.disk.root, "the first request after a restart reads its prompt again");
}

void check_port(Report& report, uint16_t port) {
  const auto bound = server::check_port(port);
  if (!bound) return report.add("port", bound.error());
  report.add(Level::kOk, "port", port == 0 ? "a free one is taken" : fmt::format("127.0.0.1:{} is free", port));
}

// ---- the model

// The file that would be loaded.
Result<std::string> find_file(const ServeOptions& options) {
  if (options.ollama.empty()) return options.gguf;
  T9_TRY(found, find_ollama_model(ollama_store_path(), options.ollama));
  return found.blob.string();
}

// "Q4_K 81 %, Q6_K 18 %, F32 1 %"
std::string describe_types(const gguf::File& file) {
  const std::vector<DTypeShare> shares = dtype_shares(file);
  std::string text;
  for (const DTypeShare& share : shares) {
    const double percent = 100.0 * share.of_all;
    text += fmt::format("{}{} {} %", text.empty() ? "" : ", ", share.name,
                        percent < 1.0 ? "below 1" : fmt::format("{:.0f}", percent));
  }
  return text.empty() ? "no tensors" : text;
}

std::string describe_model(const models::ModelInfo& info) {
  return fmt::format("{}, {} parameters, {} layers, made for {} tokens", info.architecture,
                     human_count(info.n_parameters), info.n_layers, info.context_length);
}

void check_text(Report& report, const ServeOptions& options, const gguf::Metadata& metadata) {
  const auto tokenizer = tokenizer::Tokenizer::create(metadata);
  if (!tokenizer) return report.add("tokenizer", tokenizer.error());
  report.add(Level::kOk, "tokenizer",
             fmt::format("{}, {} tokens", (*tokenizer)->description(), (*tokenizer)->n_tokens()));
  const auto format = make_chat_format(options, metadata, **tokenizer);
  if (!format) return report.add("template", format.error());
  if (!format->problem().empty()) {
    return report.add(Level::kWarn, "template", format->problem() + ": only /v1/completions and /api/generate serve");
  }
  report.add(Level::kOk, "template", fmt::format("tool calls as {}", format->dialect().name));
}

void check_tower(Report& report, const ServeOptions& options) {
  if (options.tower.empty()) return;
  const auto tower = vision::Tower::open(options.tower, {.isa = options.isa});
  if (!tower) return report.add("tower", tower.error());
  report.add(Level::kOk, "tower", options.tower);
}

void check_weights(Report& report, const models::Model& model) {
  if (!fit_memory(model.weights)) return report.add(Level::kFail, "weights", describe_misfit(model.weights));
  report.add(Level::kOk, "weights",
             fmt::format("{}, used as they are in the file", human(weight_bytes(model.weights))));
}

// How the budget is divided, and whether the machine has as much just now.
void check_budget(Report& report, const models::Model& model, const backends::Backend& backend,
                  const engine::EngineOptions& options) {
  const auto planned = engine::plan_engine_memory(backend, model, options);
  if (!planned) return report.add("budget", planned.error());
  const auto& [needs, plan] = *planned;
  const size_t fixed = needs.fixed();
  const auto pages_of = [](int64_t tokens) { return (tokens + tensor::kPageTokens - 1) / tensor::kPageTokens; };
  const size_t context_bytes = static_cast<size_t>(pages_of(plan.context_length)) * needs.page;
  report.add(Level::kOk, "budget",
             fmt::format(
                 "{} beside the weights: {} to work in, then {} for each 1000 tokens (keys and values as {}), room for "
                 "{} tokens in all",
                 human(plan.budget), human(fixed), human(needs.page * 1000 / tensor::kPageTokens),
                 tensor::kv_type_name(options.kv_type), plan.pages * tensor::kPageTokens));
  const bool is_cut = plan.context_length < options.context_length;
  report.add(is_cut ? Level::kWarn : Level::kOk, "context",
             fmt::format("{} tokens{}; one that is full takes {}", plan.context_length,
                         is_cut ? ", for which the budget has room (--memory gives more)" : "", human(context_bytes)));
  const uint64_t wanted = weight_bytes(model.weights) + fixed + context_bytes;
  const uint64_t available = available_memory_bytes();
  if (available > 0 && wanted > available) {
    report.add(
        Level::kWarn, "memory now",
        fmt::format("one full context needs {} with the weights, {} is not in use: close other programs, or give "
                    "a smaller --max-length",
                    human(wanted), human(available)));
  }
}

void check_model(Report& report, const ServeOptions& options, ServeSettings settings,
                 const backends::Backend* backend) {
  const auto path = find_file(options);
  if (!path) return report.add("file", path.error());
  report.section(*path);
  auto opened = gguf::File::open(*path);
  if (!opened) return report.add("file", opened.error());
  const std::shared_ptr<const gguf::File> file = *std::move(opened);
  report.add(Level::kOk, "file",
             fmt::format("GGUF {}, {}{}", file->version(), human(file->size_bytes()),
                         file->n_parts() > 1 ? fmt::format(" in {} parts", file->n_parts()) : ""));
  const auto model = models::load_model(file);
  if (model) {
    report.add(Level::kOk, "model", describe_model(model->info));
  } else {
    report.add("model", model.error());
  }
  report.add(Level::kOk, "types", describe_types(*file));
  check_text(report, options, file->metadata());
  check_tower(report, options);
  if (!model) return;
  for (const std::string& warning : model->warnings) report.add(Level::kWarn, "model", warning);
  check_weights(report, *model);
  if (!backend) return;
  const auto engine_options = make_engine_options(options, std::move(settings), *model, *backend);
  if (!engine_options) return report.add("budget", engine_options.error());
  check_budget(report, *model, *backend, *engine_options);
}

int diagnose(const ServeOptions& options) {
  Result<ServeSettings> settings = read_serve_settings(options);
  if (!settings) {
    fmt::print(stderr, "tempo9: error: {}\n", settings.error().message());
    return kExitUsage;
  }
  Report report;
  report.section("This machine");
  const auto backend = make_backend(options);
  if (backend) {
    report.add(Level::kOk, "compute", (*backend)->description());
  } else {
    report.add("compute", backend.error());
  }
  check_memory(report);
  check_caches(report, *settings);
  check_port(report, options.port);
  const bool has_model = !options.gguf.empty() || !options.ollama.empty();
  if (has_model) check_model(report, options, *std::move(settings), backend ? backend->get() : nullptr);
  const std::string_view good = has_model ? "will run" : "ready; 'tempo9 doctor FILE' says whether a model will run";
  fmt::print("{}\n", report.has_failed() ? report.paint(Level::kFail, "will not run: " + report.problem())
                                         : report.paint(Level::kOk, good));
  return report.has_failed() ? kExitFailure : kExitOk;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Say whether a model (FILE, or a name of Ollama's) will run here with these flags, and with which memory");
  command->footer("Exit codes: 0 it will run, 1 it will not, 2 wrong usage.");
  add_serve_options(*command, *options);
  command->callback([options, &exit_code] {
    resolve_model_argument(*options);
    exit_code = diagnose(*options);
  });
}

}  // namespace tempo9::cli
