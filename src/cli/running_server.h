// A model that is being served by this process: what `tempo9` does until a signal, and `tempo9 chat FILE` beside its
// terminal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/energy_meter.h"
#include "base/result.h"
#include "cli/serve_options.h"
#include "cli/served_model.h"
#include "cli/vision_input.h"
#include "engine/engine.h"
#include "server/server.h"

namespace tempo9::cli {

class RunningServer {
 public:
  // Loads the model and serves it on `options.port`. Errors: those of load_served_model, of open_vision, of the engine
  // (a memory budget without room) and of the port.
  static Result<std::unique_ptr<RunningServer>> start(const ServeOptions& options, ServeSettings settings);
  ~RunningServer();

  const ServedModel& served() const { return served_; }
  int64_t context_length() const { return engine_->context_length(); }
  uint16_t port() const { return server_->port(); }
  // Takes no more requests, lets answers under way end for 30 s, then tells the rest that the server stops. Idempotent.
  void stop();

 private:
  explicit RunningServer(ServedModel served) : served_(std::move(served)) {}

  // Destroyed in reverse: the server uses the engine, which uses the model.
  ServedModel served_;
  std::optional<VisionInput> vision_;
  std::unique_ptr<EnergyMeter> energy_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<server::Server> server_;
};

}  // namespace tempo9::cli
