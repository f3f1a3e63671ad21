#include "cli/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "cli/commands.h"
#include "cli/kv_disk.h"
#include "cli/logging.h"
#include "cli/model_card.h"
#include "cli/ollama_store.h"
#include "cli/served_model.h"
#include "cli/start_summary.h"
#include "cli/stop_signals.h"
#include "cli/vision_input.h"
#include "engine/engine.h"
#include "server/server.h"

namespace tempo9::cli {

namespace {

// Running answers get this long to end after the engine has stopped; their last event is then there already.
constexpr int kStopGraceMs = 2000;

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

// Every connection is a descriptor, and the usual soft limit of 1024 is the server's own limit of connections.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65536);
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> run_server(const ServeOptions& options, kv::disk::Options disk, StopSignals& signals) {
  T9_TRY(served, load_served_model(options, std::move(disk)));
  T9_TRY(vision, open_vision(options, served));
  log_warnings(served);
  T9_TRY(engine, engine::Engine::create(*served.backend, served.model, *served.tokenizer, served.engine_options));
  const server::ServerContext context{
      .engine = *engine,
      .tokenizer = *served.tokenizer,
      .chat_format = served.chat_format,
      .model = make_model_card(served.file, served.model.info, served.name, engine->context_length()),
      .sampling_defaults = read_sampling_defaults(served.file->metadata()),
      .images = vision.get(),
      .logs_text = options.log_text};
  T9_TRY(server, server::Server::start(context, {.port = options.port, .limits = {}}));
  signals.expect();  // whoever reads the summary may stop the server
  print_start_summary(served, options, context.model.context_length, server->port());
  signals.wait();
  fmt::print(stderr, "tempo9: stopping (again to stop at once)\n");
  engine->stop();
  server->stop(kStopGraceMs);
  return {};
}

int list_ollama() {
  const auto models = read_ollama_store(ollama_store_path());
  if (models && std::ranges::any_of(*models, [](const OllamaModel& model) { return !model.is_missing; })) {
    fmt::print("{}", describe_ollama_models(*models));
    return kExitOk;
  }
  fmt::print(stderr, "tempo9: error: {}\n",
             models ? ollama_store_path().string() + ": nothing is there; 'ollama pull MODEL' gets a model"
                    : models.error().message());
  return kExitFailure;
}

}  // namespace

int serve(const ServeOptions& options) {
  if (options.list_ollama) return list_ollama();
  if (options.gguf.empty() == options.ollama.empty()) {
    fmt::print(stderr, "tempo9: error: {}; try 'tempo9 --gguf FILE', or 'tempo9 --help'\n",
               options.gguf.empty() ? "no model given" : "--gguf and --ollama name two models");
    return kExitUsage;
  }
  Result<kv::disk::Options> disk = read_kv_disk_options();
  if (!disk) {
    fmt::print(stderr, "tempo9: error: {}\n", disk.error().message());
    return kExitUsage;
  }
  StopSignals signals;
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  set_up_logging(options.log_level);
  const Result<void> result = run_server(options, *std::move(disk), signals);
  if (result) return kExitOk;
  fmt::print(stderr, "tempo9: error: {}\n", result.error().message());
  return kExitFailure;
}

}  // namespace tempo9::cli
