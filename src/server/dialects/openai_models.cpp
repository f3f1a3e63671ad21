// GET /v1/models and /v1/models/{id}: one route for OpenAI and Anthropic clients, so each entry has both shapes.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "server/dialects/openai.h"

namespace tempo9::server {

namespace {

Json model_entry(const std::string& id, const App& app) {
  const ModelCard& model = app.context.model;
  const std::time_t created = model.created_s;
  const int64_t context_length = app.context.engine.context_length();
  return {{"id", id},
          {"object", "model"},
          {"created", model.created_s},
          {"owned_by", "tempo9"},
          {"type", "model"},
          {"display_name", id},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(created))},
          {"context_length", context_length},
          {"max_model_len", context_length}};
}

}  // namespace

std::unique_ptr<http::Answer> handle_openai_models(http::Request request, std::string, const App& app) {
  const std::string& name = app.context.model.name;
  const Json body = {{"object", "list"},
                     {"data", Json::array({model_entry(name, app)})},
                     {"has_more", false},
                     {"first_id", name},
                     {"last_id", name}};
  return http::answer_with(openai_response(body, request.id));
}

// Answers for any id: the one model serves every name.
std::unique_ptr<http::Answer> handle_openai_model(http::Request request, std::string id, const App& app) {
  return http::answer_with(openai_response(model_entry(id, app), request.id));
}

}  // namespace tempo9::server
