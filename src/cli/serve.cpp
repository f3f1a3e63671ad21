#include "cli/serve.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "base/buffer.h"
#include "base/mapped_file.h"
#include "chat/chat_format.h"
#include "cli/commands.h"
#include "cli/graph_cache.h"
#include "cli/logging.h"
#include "cli/prefault.h"
#include "cli/stop_signals.h"
#include "engine/engine.h"
#include "kv/sizes.h"
#include "models/model.h"
#include "server/server.h"
#include "tensor/kv_view.h"

namespace tempo9::cli {

namespace {

// Running answers get this long to end after the engine has stopped; their last event is then there already.
constexpr int kStopGraceMs = 2000;

// Everything a server stands on, in the order of creation; destroyed in reverse.
struct Loaded {
  std::shared_ptr<const gguf::File> file;
  models::Model model;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  chat::ChatFormat chat_format;
  std::unique_ptr<backends::Backend> backend;
  engine::EngineOptions engine_options;
};

Result<std::unique_ptr<backends::Backend>> make_backend(const ServeOptions& options) {
  if (options.backend == "reference") return backends::make_reference_backend();
  return backends::make_cpu_backend({.n_threads = options.n_threads, .isa = options.isa});
}

// The model file's own template, or the one that the user gives instead.
Result<chat::ChatFormat> make_chat_format(const ServeOptions& options, const gguf::Metadata& metadata,
                                          const tokenizer::Tokenizer& tokenizer) {
  if (options.chat_template.empty()) return chat::ChatFormat::create(metadata, tokenizer);
  T9_TRY(file, MappedFile::open(options.chat_template));
  const auto bytes = file.bytes();
  const auto text = [&](std::optional<int32_t> id) { return std::string(id ? tokenizer.token_text(*id) : ""); };
  chat::ChatFormat format = chat::ChatFormat::from_source({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                                          text(tokenizer.bos()), text(tokenizer.eos()));
  if (!format.problem().empty()) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: {}", options.chat_template, format.problem()));
  }
  return format;
}

// One part in so many of the machine's memory may hold what is kept of earlier requests.
constexpr uint64_t kKeptShare = 4;

Result<Loaded> load(const ServeOptions& options) {
  T9_TRY(opened, gguf::File::open(options.gguf));
  std::shared_ptr<const gguf::File> file = std::move(opened);
  T9_TRY(model, load_model(file, options.graph));
  T9_TRY(tokenizer, tokenizer::Tokenizer::create(file->metadata()));
  T9_TRY(chat_format, make_chat_format(options, file->metadata(), *tokenizer));
  T9_TRY(backend, make_backend(options));
  prefault(model.weights);
  const engine::EngineOptions engine_options{.context_length = std::min(options.max_length, model.info.context_length),
                                             .max_batch = options.max_batch,
                                             .kv_type = backend->kv_types().front(),
                                             .kept_bytes = static_cast<size_t>(physical_memory_bytes() / kKeptShare)};
  return Loaded{std::move(file),        std::move(model),   std::move(tokenizer),
                std::move(chat_format), std::move(backend), engine_options};
}

void log_warnings(const Loaded& loaded) {
  for (const std::string& warning : loaded.model.warnings) spdlog::warn("event=model_warning what=\"{}\"", warning);
  for (const std::string& warning : loaded.tokenizer->warnings()) {
    spdlog::warn("event=tokenizer_warning what=\"{}\"", warning);
  }
  if (!loaded.chat_format.problem().empty()) {
    spdlog::warn("event=no_chat_template what=\"{}\"", loaded.chat_format.problem());
  } else {
    spdlog::info("event=chat_template tool_dialect={}", loaded.chat_format.dialect().name);
  }
}

// What the file recommends. A value that is there and wrong is as good as absent: it is advice, not the model.
server::SamplingDefaults read_sampling_defaults(const gguf::Metadata& metadata) {
  const auto number = [&](std::string_view key) { return metadata.find_float(key).value_or(std::nullopt); };
  server::SamplingDefaults defaults;
  defaults.temperature = number("general.sampling.temp");
  defaults.top_p = number("general.sampling.top_p");
  defaults.top_k = metadata.find_int("general.sampling.top_k").value_or(std::nullopt);
  defaults.min_p = number("general.sampling.min_p");
  defaults.repetition_penalty = number("general.sampling.penalty_repeat");
  return defaults;
}

std::string served_name(const ServeOptions& options) {
  if (!options.name.empty()) return options.name;
  const std::filesystem::path path(options.gguf);
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024.0 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024.0;
  return fmt::format("{:.{}f} {}", bytes, bytes < 10.0 && unit > 0 ? 1 : 0, kUnits[unit]);
}

// The type that holds most of the file's bytes: "mostly Q4_K".
std::string_view main_dtype(const gguf::File& file) {
  std::map<std::string_view, uint64_t> bytes_of;
  for (const gguf::TensorInfo& info : file.tensors()) bytes_of[tensor::dtype_name(info.dtype)] += info.bytes;
  const auto by_bytes = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::ranges::max_element(bytes_of, by_bytes);
  return most == bytes_of.end() ? "no tensors" : most->first;
}

double kv_bytes_per_token(const Loaded& loaded) {
  const size_t page = kv::page_bytes(*loaded.backend, loaded.model.program.kv_layers, loaded.engine_options.kv_type);
  return static_cast<double>(page) / static_cast<double>(tensor::kPageTokens);
}

// "KV cache 22 KiB per token (180 MiB for a full context), taken as tokens arrive"
std::string describe_cache(const Loaded& loaded) {
  const double per_token = kv_bytes_per_token(loaded);
  const auto context = static_cast<double>(loaded.engine_options.context_length);
  const auto state = static_cast<double>(kv::state_bytes(loaded.model.program.state_layers));
  return fmt::format("KV cache {} per token ({} for a full context), {}taken as tokens arrive", human_bytes(per_token),
                     human_bytes(per_token * context),
                     state > 0.0 ? fmt::format("state {} per request, ", human_bytes(state)) : "");
}

std::string describe_context(const Loaded& loaded, const ServeOptions& options) {
  const int64_t trained = loaded.model.info.context_length;
  if (options.max_length <= trained) {
    return fmt::format("{} tokens (the model allows {})", loaded.engine_options.context_length, trained);
  }
  return fmt::format("{} tokens (--max-length {} clamped to what the model declares)", trained, options.max_length);
}

void print_summary(const Loaded& loaded, const ServeOptions& options, const std::string& name, uint16_t port) {
  const models::ModelInfo& info = loaded.model.info;
  const auto file_bytes = static_cast<double>(loaded.file->size_bytes());
  const std::string url = fmt::format("http://127.0.0.1:{}", port);
  fmt::print(stderr,
             "tempo9 {}\n"
             "  model    {} ({}, {:.3g}B parameters, {}, mostly {})\n"
             "  context  {}\n"
             "  compute  {}, {} requests at once\n"
             "  memory   weights {}, {}\n"
             "  reuse    up to {} of earlier prompts and answers are kept in memory\n"
             "  address  {}\n\n"
             "Try:\n  curl -N {}/v1/chat/completions -d '{{\"stream\":true,\"messages\":"
             "[{{\"role\":\"user\",\"content\":\"Hello!\"}}]}}'\n\n",
             TEMPO9_VERSION, name, info.architecture, static_cast<double>(info.n_parameters) / 1e9,
             human_bytes(file_bytes), main_dtype(*loaded.file), describe_context(loaded, options),
             loaded.backend->description(), options.max_batch, human_bytes(file_bytes), describe_cache(loaded),
             human_bytes(static_cast<double>(loaded.engine_options.kept_bytes)), url, url);
}

// Every connection is a descriptor, and the usual soft limit of 1024 is the server's own limit of connections.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65536);
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> run_server(const ServeOptions& options, StopSignals& signals) {
  T9_TRY(loaded, load(options));
  log_warnings(loaded);
  T9_TRY(engine, engine::Engine::create(*loaded.backend, loaded.model, *loaded.tokenizer, loaded.engine_options));
  const server::ServerContext context{.engine = *engine,
                                      .tokenizer = *loaded.tokenizer,
                                      .chat_format = loaded.chat_format,
                                      .model = {.name = served_name(options),
                                                .created_s = loaded.file->modified_ns() / 1'000'000'000,
                                                .context_length = engine->context_length()},
                                      .sampling_defaults = read_sampling_defaults(loaded.file->metadata())};
  T9_TRY(server, server::Server::start(context, {.port = options.port, .limits = {}}));
  print_summary(loaded, options, context.model.name, server->port());
  signals.wait();
  fmt::print(stderr, "tempo9: stopping (again to stop at once)\n");
  engine->stop();
  server->stop(kStopGraceMs);
  return {};
}

// Hidden from the help, and known, so that it is refused by name.
void add_missing_flag(CLI::App& app, ServeOptions& options, const std::string& flag, bool takes_value) {
  const auto note = [&options, flag](auto&&) { options.missing_flag = flag; };
  if (takes_value) {
    app.add_option_function<std::string>(flag, note)->group("");
  } else {
    app.add_flag_function(flag, note)->group("");
  }
}

// Checks without the text that CLI11 would put between the flag and what it means.
CLI::Validator in_range(int64_t min, int64_t max) {
  CLI::Range range(min, max);
  range.description("");
  return range;
}

CLI::Validator one_of(std::vector<std::string> names) {
  CLI::IsMember member(std::move(names));
  member.description("");
  return member;
}

void add_model_options(CLI::App& app, ServeOptions& options) {
  app.add_option("--gguf,FILE", options.gguf, "Model file (the first part of a split one); --gguf may be left out")
      ->type_name("PATH")
      ->group("Model");
  app.add_option("--chat-template", options.chat_template, "Jinja chat template to use instead of the model file's own")
      ->group("Model")
      ->type_name("FILE");
  app.add_option(
         "--graph", options.graph,
         "File with the model's compute graph, made if it is not there; off: none; default: in the cache folder")
      ->type_name("PATH")
      ->group("Model");
  app.add_option("--name", options.name, "What the model lists report; default: the file's name")
      ->type_name("STRING")
      ->group("Model");
}

void add_serving_options(CLI::App& app, ServeOptions& options) {
  app.add_option("--port", options.port, "Port on 127.0.0.1; 0 takes a free one and prints it")
      ->type_name("N")
      ->capture_default_str()
      ->group("Serving");
  app.add_option("--max-length", options.max_length, "Context length, clamped to what the model declares")
      ->type_name("N")
      ->check(in_range(1, int64_t{1} << 31))
      ->capture_default_str()
      ->group("Serving");
  app.add_option("--max-batch", options.max_batch, "Requests that run at once; 1 serves one after the other")
      ->type_name("N")
      ->check(in_range(1, 1024))
      ->capture_default_str()
      ->group("Serving");
  app.add_option("--log-level", options.log_level, "error, warn, info or debug")
      ->type_name("LEVEL")
      ->check(one_of({"error", "warn", "info", "debug"}))
      ->capture_default_str()
      ->group("Serving");
}

void add_compute_options(CLI::App& app, ServeOptions& options) {
  app.add_option("--backend", options.backend, "cpu, or reference: slow, exact, for comparison")
      ->type_name("NAME")
      ->check(one_of({"cpu", "reference"}))
      ->capture_default_str()
      ->group("Compute");
  app.add_option("--threads", options.n_threads, "Compute threads; 0: one per physical core")
      ->type_name("N")
      ->check(in_range(0, 1024))
      ->capture_default_str()
      ->group("Compute");
  app.add_option("--isa", options.isa, "Instruction set; default: the best one here (or TEMPO9_ISA)")
      ->type_name("NAME")
      ->group("Compute");
}

}  // namespace

void add_serve_options(CLI::App& app, ServeOptions& options) {
  add_model_options(app, options);
  add_serving_options(app, options);
  add_compute_options(app, options);
  for (const char* flag : {"--ollama", "--tower", "--speculation-k"}) {
    add_missing_flag(app, options, flag, true);
  }
  add_missing_flag(app, options, "--list-ollama", false);
}

int serve(const ServeOptions& options) {
  if (!options.missing_flag.empty()) {
    fmt::print(stderr, "tempo9: error: {} is not available in this version\n", options.missing_flag);
    return kExitUsage;
  }
  if (options.gguf.empty()) {
    fmt::print(stderr, "tempo9: error: no model given; try 'tempo9 --gguf FILE', or 'tempo9 --help'\n");
    return kExitUsage;
  }
  StopSignals signals;
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  set_up_logging(options.log_level);
  const Result<void> result = run_server(options, signals);
  if (result) return kExitOk;
  fmt::print(stderr, "tempo9: error: {}\n", result.error().message());
  return kExitFailure;
}

}  // namespace tempo9::cli
