// An API dialect: its routes and its way of saying that something is wrong. list.cpp has all of them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/app.h"
#include "server/http/answer.h"

namespace tempo9::server {

struct Route {
  std::string_view methods;  // "GET, HEAD": as the Allow header says it
  // A last segment "{id...}" stands for the rest of the path, slashes included.
  std::string_view path;
  // `id` is the percent-decoded wildcard part, empty for a route without one.
  std::unique_ptr<http::Answer> (*handle)(http::Request request, std::string id, const App& app);
};

struct Dialect {
  // Paths that begin so are this dialect's, for errors on routes that do not exist.
  std::string_view prefix;
  std::span<const Route> routes;
  // The one place where an Error becomes a status and a body.
  http::Response (*write_error)(const Error& error, std::string_view request_id);
};

// In the order in which prefixes are tried; the last one has the empty prefix.
std::span<const Dialect* const> all_dialects();

}  // namespace tempo9::server
