// The status page and what it reads. All of it is for people before this machine: the fields of /status may change.
#pragma once

#include <memory>
#include <string>

#include "server/app.h"
#include "server/http/answer.h"

namespace tempo9::server {

// The page, one HTML file without anything from elsewhere (page/status.html).
http::Response status_page();
// GET /status: the model, memory, counters, requests under way and the last ones that ended, as JSON.
std::unique_ptr<http::Answer> handle_status(http::Request request, std::string id, const App& app);
// POST /status/cancel/{id}: ends a request. 404 when it is not under way.
std::unique_ptr<http::Answer> handle_cancel(http::Request request, std::string id, const App& app);

}  // namespace tempo9::server
