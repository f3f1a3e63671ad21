#include "server/dialects/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "server/dialects/openai.h"

namespace tempo9::server {

// Generated from page/status.html.
extern const std::string_view kStatusPage;

namespace {

Json model_json(const ServerContext& context) {
  const ModelCard& card = context.model;
  return {{"name", card.name},
          {"architecture", card.family},
          {"quantization", card.quantization},
          {"parameters", card.n_parameters},
          {"file_bytes", card.size_bytes},
          {"context_length", context.engine.context_length()},
          {"compute", context.compute}};
}

Json active_json(const Activity& activity) {
  Json list = Json::array();
  for (const auto& request : activity.active()) {
    list.push_back({{"id", request->id()},
                    {"path", request->path()},
                    {"state", request->state()},
                    {"age_s", request->age_s()},
                    {"prompt_tokens", std::max<int64_t>(request->prompt_tokens(), 0)},
                    {"completion_tokens", request->completion_tokens()}});
  }
  return list;
}

Json ended_json(const Activity& activity) {
  Json list = Json::array();
  for (const EndedRequest& request : activity.ended()) {
    const engine::Usage& usage = request.usage;
    list.push_back({{"number", request.number},
                    {"path", request.path},
                    {"finish", request.finish},
                    {"prompt_tokens", usage.prompt_tokens},
                    {"cached_tokens", usage.cached_tokens},
                    {"completion_tokens", usage.completion_tokens},
                    {"ttft_ms", usage.queue_ms + usage.prefill_ms},
                    {"decode_ms", usage.decode_ms},
                    {"energy_j", usage.energy_j ? Json(*usage.energy_j) : Json()}});
  }
  return list;
}

}  // namespace

http::Response status_page() {
  return {.status = 200,
          .headers = {{"Content-Type", "text/html; charset=utf-8"},
                      {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy",
                       "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
                       "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}},
          .body = std::string(kStatusPage)};
}

std::unique_ptr<http::Answer> handle_status(http::Request request, std::string, const App& app) {
  const Json body = {{"version", version()},
                     {"model", model_json(app.context)},
                     {"active", active_json(app.activity)},
                     {"ended", ended_json(app.activity)}};
  return http::answer_with(openai_response(body, request.id));
}

std::unique_ptr<http::Answer> handle_cancel(http::Request request, std::string id, const App& app) {
  if (!app.activity.cancel(id)) {
    return http::answer_with(
        write_openai_error(Error(ErrorCode::kNotFound, fmt::format("no request '{}' is under way", id)), request.id));
  }
  return http::answer_with(openai_response({{"cancelled", id}}, request.id));
}

}  // namespace tempo9::server
