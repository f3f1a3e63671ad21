#include "server/dialects/openai_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "server/ids.h"

namespace tempo9::server {

http::Response openai_stream_head(std::string_view request_id) {
  return {.status = 200,
          .headers = {{"Content-Type", "text/event-stream"},
                      {"Cache-Control", "no-cache"},
                      {"x-request-id", std::string(request_id)}},
          .body = {}};
}

std::string openai_event(const Json& data) { return fmt::format("data: {}\n\n", dump_json(data)); }

Json OpenAiEnvelope::object(std::string_view type) const {
  return {{"id", id}, {"object", type}, {"created", created_s}, {"model", model}, {"system_fingerprint", "fp_tempo9"}};
}

OpenAiEnvelope make_openai_envelope(const ChatRequest& request, std::string request_id, std::string_view id_prefix) {
  return {.request_id = std::move(request_id),
          .id = std::string(id_prefix) + random_base62(24),
          .created_s = std::time(nullptr),
          .model = request.model,
          .debug_cache = request.debug_cache};
}

Json OpenAiEnvelope::usage(const AnswerUsage& usage) const {
  const engine::Usage& tokens = usage.engine;
  Json json = {{"prompt_tokens", tokens.prompt_tokens},
               {"completion_tokens", tokens.completion_tokens},
               {"total_tokens", tokens.prompt_tokens + tokens.completion_tokens},
               {"prompt_tokens_details", {{"cached_tokens", tokens.cached_tokens}, {"audio_tokens", 0}}},
               {"completion_tokens_details",
                {{"reasoning_tokens", usage.reasoning_tokens},
                 {"audio_tokens", 0},
                 {"accepted_prediction_tokens", tokens.accepted_tokens},
                 {"rejected_prediction_tokens", tokens.drafted_tokens - tokens.accepted_tokens}}}};
  if (debug_cache) {
    json["prompt_tokens_details"]["tempo9"] = {{"common_tokens", tokens.common_tokens},
                                               {"uncached_because", tokens.uncached_because}};
  }
  return json;
}

bool OpenAiChoices::finish(const AnswerUpdate& last) {
  const engine::Usage& usage = last.usage.engine;
  if (last.choice % n_ == 0) {
    sum_.engine.prompt_tokens += usage.prompt_tokens;
    sum_.engine.cached_tokens += usage.cached_tokens;
    sum_.engine.common_tokens += usage.common_tokens;
    sum_.engine.uncached_because = usage.uncached_because;
  }
  sum_.engine.completion_tokens += usage.completion_tokens;
  sum_.engine.drafted_tokens += usage.drafted_tokens;
  sum_.engine.accepted_tokens += usage.accepted_tokens;
  sum_.reasoning_tokens += last.usage.reasoning_tokens;
  return --n_open_ == 0;
}

size_t n_prompts(const ChatRequest& request) { return std::max<size_t>(1, request.raw_prompts.size()); }

}  // namespace tempo9::server
