#include "server/dialects/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
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

Json memory_json(const engine::ServiceStats& stats) {
  const engine::MemoryStats& memory = stats.memory;
  return {{"budget_bytes", memory.budget_bytes},
          {"working_bytes", memory.activation_bytes + memory.disk_buffer_bytes},
          {"cache_bytes", memory.pages_resident_bytes},
          {"state_bytes", memory.state_bytes * static_cast<size_t>(memory.states_used + memory.states_kept)},
          {"pages_total", stats.kv_pages_total},
          {"pages_used", stats.kv_pages_used},
          {"pages_kept", stats.kv_pages_kept},
          {"page_evictions", stats.kv_evictions}};
}

Json disk_json(const engine::DiskStats& disk) {
  return {{"bytes", disk.bytes}, {"restored_tokens", disk.restored_tokens}, {"written_bytes", disk.written_bytes}};
}

Json speculation_json(const engine::SpeculationStats& stats) {
  uint64_t proposed = 0;
  uint64_t accepted = 0;
  for (const engine::DrafterStats& drafter : stats.drafters) {
    proposed = std::accumulate(drafter.proposed.begin(), drafter.proposed.end(), proposed);
    accepted = std::accumulate(drafter.accepted.begin(), drafter.accepted.end(), accepted);
  }
  return {{"guessed", proposed}, {"right", accepted}};
}

Json totals_json(const engine::ServiceStats& stats) {
  return {{"running", stats.running},
          {"waiting", stats.waiting},
          {"cancelled", stats.cancelled},
          {"prompt_tokens", stats.prompt_tokens},
          {"reused_tokens", stats.reused_tokens},
          {"completion_tokens", stats.completion_tokens},
          {"prefill_rows", stats.prefill_rows},
          {"step_seconds", stats.step_s},
          {"last_step_age_s", stats.last_step_age_s},
          {"energy_j", stats.energy_j ? Json(*stats.energy_j) : Json()}};
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
  const engine::ServiceStats stats = app.context.engine.stats();
  const Json body = {{"version", version()},
                     {"model", model_json(app.context)},
                     {"memory", memory_json(stats)},
                     {"disk", disk_json(stats.disk)},
                     {"speculation", speculation_json(stats.speculation)},
                     {"totals", totals_json(stats)},
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
