// What the routes work with.
#pragma once

#include <string_view>

#include "server/server.h"
#include "server/worker_pool.h"

namespace tempo9::server {

// Outlives every answer.
struct App {
  const ServerContext& context;
  WorkerPool& workers;
};

// Of the program.
std::string_view version();

}  // namespace tempo9::server
