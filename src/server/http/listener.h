// The listening socket, the threads that serve its connections, and their orderly end.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "server/http/answer.h"
#include "server/limits.h"

namespace tempo9::server::http {

// Listens there and lets go at once. Errors: as Listener::start.
Result<void> check_port(uint16_t port);

class Listener {
 public:
  // Binds 127.0.0.1:`port` (0: any free one) and starts. `handler` outlives the listener.
  // Errors: kIo when the port is taken.
  static Result<std::unique_ptr<Listener>> start(uint16_t port, Handler& handler, const HttpLimits& limits);
  virtual ~Listener() = default;

  virtual uint16_t port() const = 0;
  virtual size_t n_connections() const = 0;
  // Stops accepting; idle connections close, answers under way may end within `grace_ms` and are then aborted; joins
  // the threads. Idempotent.
  virtual void stop(int grace_ms) = 0;
};

}  // namespace tempo9::server::http
