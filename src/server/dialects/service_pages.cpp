#include "server/dialects/service_pages.h"

#include <fmt/format.h>

#include <array>

#include "server/dialects/openai.h"
#include "server/limits.h"

namespace tempo9::server {

namespace {

http::Response text_page(std::string body, std::string_view content_type = "text/plain; charset=utf-8") {
  return {.status = 200, .headers = {{"Content-Type", std::string(content_type)}}, .body = std::move(body)};
}

std::unique_ptr<http::Answer> handle_root(http::Request, std::string, const App& app) {
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

// Prometheus text format: https://prometheus.io/docs/instrumenting/exposition_formats/
struct Metric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  double (*read)(const engine::ServiceStats& stats);
};

using Stats = engine::ServiceStats;
constexpr std::array<Metric, 12> kMetrics = {{
    {"tempo9_requests_running", "gauge", "Requests in the batch.",
     [](const Stats& s) { return static_cast<double>(s.running); }},
    {"tempo9_requests_waiting", "gauge", "Requests in the queue.",
     [](const Stats& s) { return static_cast<double>(s.waiting); }},
    {"tempo9_requests_cancelled_total", "counter", "Requests whose client went away.",
     [](const Stats& s) { return static_cast<double>(s.cancelled); }},
    {"tempo9_engine_steps_total", "counter", "Passes of the engine.",
     [](const Stats& s) { return static_cast<double>(s.steps); }},
    {"tempo9_last_step_age_seconds", "gauge", "Time since a pass ended, while there is work.",
     [](const Stats& s) { return s.last_step_age_s; }},
    {"tempo9_prompt_tokens_total", "counter", "Prompt tokens taken in.",
     [](const Stats& s) { return static_cast<double>(s.prompt_tokens); }},
    {"tempo9_prompt_tokens_reused_total", "counter", "Of them, tokens whose pages of the KV cache were there already.",
     [](const Stats& s) { return static_cast<double>(s.reused_tokens); }},
    {"tempo9_completion_tokens_total", "counter", "Tokens sampled.",
     [](const Stats& s) { return static_cast<double>(s.completion_tokens); }},
    {"tempo9_kv_pages_used", "gauge", "Pages of the KV cache that requests use.",
     [](const Stats& s) { return static_cast<double>(s.kv_pages_used); }},
    {"tempo9_kv_pages_kept", "gauge", "Pages kept for requests to come, whether or not one uses them too.",
     [](const Stats& s) { return static_cast<double>(s.kv_pages_kept); }},
    {"tempo9_kv_evictions_total", "counter", "Kept pages that made room for others.",
     [](const Stats& s) { return static_cast<double>(s.kv_evictions); }},
    {"tempo9_kv_pages_total", "gauge", "Pages the KV cache may have.",
     [](const Stats& s) { return static_cast<double>(s.kv_pages_total); }},
}};

std::unique_ptr<http::Answer> handle_metrics(http::Request, std::string, const App& app) {
  const Stats stats = app.context.engine.stats();
  std::string page;
  for (const Metric& metric : kMetrics) {
    page += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", metric.name, metric.help, metric.type,
                        metric.read(stats));
  }
  return http::answer_with(text_page(std::move(page), "text/plain; version=0.0.4; charset=utf-8"));
}

constexpr std::array<Route, 3> kRoutes = {{{"GET, HEAD", "/", handle_root},
                                           {"GET, HEAD", "/health", handle_health},
                                           {"GET, HEAD", "/metrics", handle_metrics}}};

}  // namespace

// No path belongs here unless it is one of the routes: the prefix is one that no path begins with.
constinit const Dialect kServicePages = {.prefix = "\n", .routes = kRoutes, .write_error = write_openai_error};

}  // namespace tempo9::server
