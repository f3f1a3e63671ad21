#include "server/dialects/router.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "server/http/access.h"
#include "server/http/errors.h"

namespace tempo9::server {

namespace {

constexpr std::string_view kWildcard = "{id...}";

struct Match {
  const Route* route = nullptr;
  const Dialect* dialect = nullptr;
  std::string id;
};

// The wildcard part of `path`, empty for a route without one; nothing when the route is another.
std::optional<std::string> match_path(const Route& route, std::string_view path) {
  if (!route.path.ends_with(kWildcard)) {
    return route.path == path ? std::optional<std::string>("") : std::nullopt;
  }
  const std::string_view stem = route.path.substr(0, route.path.size() - kWildcard.size());
  if (!path.starts_with(stem) || path.size() == stem.size()) return std::nullopt;
  return http::percent_decode(path.substr(stem.size()));
}

Match find_route(std::string_view path) {
  for (const Dialect* dialect : all_dialects()) {
    for (const Route& route : dialect->routes) {
      if (auto id = match_path(route, path)) return {&route, dialect, std::move(*id)};
    }
  }
  return {};
}

bool takes_method(const Route& route, std::string_view method) {
  for (std::string_view rest = route.methods; !rest.empty();) {
    const size_t comma = rest.find(", ");
    if (rest.substr(0, comma) == method) return true;
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 2);
  }
  return false;
}

const Dialect& dialect_of(std::string_view path) {
  if (const Match match = find_route(path); match.dialect) return *match.dialect;
  for (const Dialect* dialect : all_dialects()) {
    if (path.starts_with(dialect->prefix)) return *dialect;
  }
  return *all_dialects().back();
}

std::string list_routes() {
  std::string list;
  for (const Dialect* dialect : all_dialects()) {
    for (const Route& route : dialect->routes) {
      list += fmt::format("{}{} {}", list.empty() ? "" : "; ", route.methods, route.path);
    }
  }
  return list;
}

// A browser's preflight, or somebody's question what a path takes.
http::Response answer_options(const http::Request& request, const Route* route) {
  http::Response response{.status = 204, .headers = {}, .body = {}};
  if (request.header("Origin").empty()) {
    response.headers.push_back({"Allow", route ? fmt::format("{}, OPTIONS", route->methods) : "OPTIONS"});
  } else {
    response.headers = http::preflight_headers(request);
  }
  return response;
}

}  // namespace

std::unique_ptr<http::Answer> Router::handle(http::Request request) {
  Match match = find_route(request.path);
  if (request.method == "OPTIONS") return http::answer_with(answer_options(request, match.route));
  if (!match.route) {
    return http::answer_with(refuse(request, http::no_such_route(request.method, request.path, list_routes())));
  }
  if (!takes_method(*match.route, request.method)) {
    http::Response response =
        refuse(request, http::method_not_allowed(request.method, request.path, match.route->methods));
    response.headers.push_back({"Allow", std::string(match.route->methods)});
    return http::answer_with(std::move(response));
  }
  return match.route->handle(std::move(request), std::move(match.id), app_);
}

http::Response Router::refuse(const http::Request& request, const Error& error) {
  return dialect_of(request.path).write_error(error, request.id);
}

}  // namespace tempo9::server
