#include "cli/running_server.h"

#include <utility>

#include "cli/model_card.h"

namespace tempo9::cli {

namespace {

// Answers under way get this long to end by themselves; a service manager's patience is longer (systemd: 90 s).
constexpr int kDrainMs = 30'000;

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

}  // namespace

Result<std::unique_ptr<RunningServer>> RunningServer::start(const ServeOptions& options, ServeSettings settings) {
  T9_TRY(loaded, load_served_model(options, std::move(settings)));
  std::unique_ptr<RunningServer> running(new RunningServer(std::move(loaded)));
  const ServedModel& served = running->served_;
  T9_TRY(vision, open_vision(options, running->served_));
  running->vision_.emplace(std::move(vision));
  log_warnings(served);
  running->energy_ = make_powercap_meter();
  running->served_.engine_options.energy = running->energy_.get();
  T9_TRY(engine, engine::Engine::create(*served.backend, served.model, *served.tokenizer, served.engine_options));
  running->engine_ = std::move(engine);
  const server::ServerContext context{
      .engine = *running->engine_,
      .tokenizer = *served.tokenizer,
      .chat_format = served.chat_format,
      .model = make_model_card(served.file, served.model.info, served.name, running->context_length()),
      .sampling_defaults = read_sampling_defaults(served.file->metadata()),
      .images = running->vision_->get(),
      .compute = served.backend->description(),
      .logs_text = options.log_text};
  T9_TRY(server, server::Server::start(context, {.port = options.port, .limits = {}}));
  running->server_ = std::move(server);
  return running;
}

RunningServer::~RunningServer() { stop(); }

void RunningServer::stop() {
  if (server_) server_->stop(kDrainMs);
  if (engine_) engine_->stop();
}

}  // namespace tempo9::cli
