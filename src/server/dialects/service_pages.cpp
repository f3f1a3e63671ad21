#include "server/dialects/service_pages.h"

#include <fmt/format.h>

#include <array>

#include "server/dialects/metrics.h"
#include "server/dialects/openai.h"
#include "server/dialects/status.h"
#include "server/limits.h"

namespace tempo9::server {

namespace {

http::Response text_page(std::string body, std::string_view content_type = "text/plain; charset=utf-8") {
  return {.status = 200, .headers = {{"Content-Type", std::string(content_type)}}, .body = std::move(body)};
}

// HTML for browsers, plain text for everybody else.
std::unique_ptr<http::Answer> handle_root(http::Request request, std::string, const App& app) {
  if (request.header("Accept").find("text/html") != std::string_view::npos) return http::answer_with(status_page());
  std::string page = fmt::format("tempo9 {}\nmodel {}, context {} tokens\n\n", version(), app.context.model.name,
                                 app.context.engine.context_length());
  for (const Dialect* dialect : all_dialects()) {
    for (const Route& route : dialect->routes) page += fmt::format("{:<10} {}\n", route.methods, route.path);
  }
  return http::answer_with(text_page(std::move(page)));
}

// A monitor that only asks whether somebody answers would call a hung engine healthy: steps have to advance.
std::unique_ptr<http::Answer> handle_health(http::Request, std::string, const App& app) {
  const engine::ServiceStats stats = app.context.engine.stats();
  const bool has_work = stats.running + stats.waiting > 0;
  const bool is_stalled = has_work && stats.last_step_age_s > kStalledAfterSeconds;
  const Json body = {{"status", is_stalled ? "stalled" : "ok"}};
  return http::answer_with({.status = is_stalled ? 503u : 200u,
                            .headers = {{"Content-Type", "application/json; charset=utf-8"}},
                            .body = dump_json(body)});
}

std::unique_ptr<http::Answer> handle_metrics(http::Request, std::string, const App& app) {
  return http::answer_with(text_page(metrics_page(app), "text/plain; version=0.0.4; charset=utf-8"));
}

constexpr std::array<Route, 5> kServiceRoutes = {{{"GET, HEAD", "/", handle_root},
                                                  {"GET, HEAD", "/status", handle_status},
                                                  {"POST", "/status/cancel/{id...}", handle_cancel},
                                                  {"GET, HEAD", "/health", handle_health},
                                                  {"GET, HEAD", "/metrics", handle_metrics}}};

}  // namespace

// No path belongs here unless it is one of the routes: the prefix is one that no path begins with.
constinit const Dialect kServicePages = {.prefix = "\n", .routes = kServiceRoutes, .write_error = write_openai_error};

}  // namespace tempo9::server
