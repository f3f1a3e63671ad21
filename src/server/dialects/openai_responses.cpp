#include "server/dialects/openai_responses.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "server/dialects/openai.h"
#include "server/dialects/openai_responses_answer.h"
#include "server/dialects/openai_responses_request.h"
#include "server/generation.h"
#include "server/response_store.h"

namespace tempo9::server {

namespace {

constexpr GenerationDialect kResponses = {
    .parse = parse_responses_request, .make_writer = make_responses_writer, .write_error = write_responses_error};

std::unique_ptr<http::Answer> handle_responses(http::Request request, std::string, const App& app) {
  return generate(std::move(request), kResponses, app);
}

http::Response not_found(const std::string& id, std::string_view request_id) {
  return write_responses_error(Error(ErrorCode::kNotFound, fmt::format("Response with id '{}' not found.", id))
                                   .with_reason("response_not_found"),
                               request_id);
}

std::unique_ptr<http::Answer> handle_response(http::Request request, std::string id, const App& app) {
  if (request.method == "DELETE") {
    if (!app.responses.erase(id)) return http::answer_with(not_found(id, request.id));
    const Json deleted = {{"id", id}, {"object", "response"}, {"deleted", true}};
    return http::answer_with(openai_response(deleted, request.id));
  }
  const auto stored = app.responses.find(id);
  if (!stored) return http::answer_with(not_found(id, request.id));
  return http::answer_with(openai_response_of(stored->object, request.id));
}

// The forms without /v1 are for clients that are given a base URL without it.
constexpr std::array<Route, 4> kResponsesRoutes = {{{"POST", "/v1/responses", handle_responses},
                                                    {"GET, DELETE", "/v1/responses/{id...}", handle_response},
                                                    {"POST", "/responses", handle_responses},
                                                    {"GET, DELETE", "/responses/{id...}", handle_response}}};

}  // namespace

constinit const Dialect kOpenAiResponses = {
    .prefix = "/v1/responses", .routes = kResponsesRoutes, .write_error = write_responses_error};

http::Response write_responses_error(const Error& error, std::string_view request_id) {
  if (!error.overflow() || !error.field().empty()) return write_openai_error(error, request_id);
  Error of_input = error;
  return write_openai_error(std::move(of_input).with_field("input"), request_id);
}

}  // namespace tempo9::server
