#include "cli/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "cli/commands.h"
#include "cli/logging.h"
#include "cli/ollama_store.h"
#include "cli/running_server.h"
#include "cli/start_summary.h"
#include "cli/stop_signals.h"

namespace tempo9::cli {

namespace {

// Every connection is a descriptor, and the usual soft limit of 1024 is the server's own limit of connections.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65536);
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> run_server(const ServeOptions& options, ServeSettings settings, StopSignals& signals) {
  T9_TRY(running, RunningServer::start(options, std::move(settings)));
  signals.expect();  // whoever reads the summary may stop the server
  print_start_summary(running->served(), options, running->context_length(), running->port());
  signals.wait();
  fmt::print(stderr, "tempo9: stopping when running answers have ended, in 30 s at most (again to stop at once)\n");
  running->stop();
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
  Result<ServeSettings> settings = read_serve_settings(options);
  if (!settings) {
    fmt::print(stderr, "tempo9: error: {}\n", settings.error().message());
    return kExitUsage;
  }
  StopSignals signals;
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  set_up_logging(options.log_level);
  const Result<void> result = run_server(options, *std::move(settings), signals);
  if (result) return kExitOk;
  fmt::print(stderr, "tempo9: error: {}\n", result.error().message());
  return kExitFailure;
}

}  // namespace tempo9::cli
