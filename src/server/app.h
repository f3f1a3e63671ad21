// What the routes work with.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/cache.h"
#include "server/activity.h"
#include "server/limits.h"
#include "server/response_store.h"
#include "server/server.h"
#include "server/worker_pool.h"

namespace tempo9::server {

// Outlives every answer.
struct App {
  const ServerContext& context;
  WorkerPool& workers;
  grammar::GrammarCache& grammars;
  ResponseStore& responses;
  Activity& activity;
  const std::vector<int32_t> marker_tokens;  // control tokens that are shown as text: prepare.h
};

// For the images of one request.
inline chat::ImageReader make_image_reader(const App& app) { return {app.context.images != nullptr, kMaxImages}; }

// Of the program.
std::string_view version();

}  // namespace tempo9::server
