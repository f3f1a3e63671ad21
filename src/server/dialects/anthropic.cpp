#include "server/dialects/anthropic.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "server/dialects/anthropic_answer.h"
#include "server/dialects/anthropic_request.h"
#include "server/generation.h"
#include "server/http/errors.h"
#include "server/prepare.h"
#include "server/worker_answer.h"

namespace tempo9::server {

namespace {

struct Form {
  unsigned status;
  std::string_view type;
};

constexpr unsigned kOverloaded = 529;

Form form_of(const Error& error) {
  if (error.overflow()) return {400, "invalid_request_error"};
  if (const auto status = http::transport_status(error)) {
    if (*status == 404) return {404, "not_found_error"};
    if (*status == 413) return {413, "request_too_large"};
    if (*status >= 500) return {kOverloaded, "overloaded_error"};
    return {*status, "invalid_request_error"};
  }
  switch (error.code()) {
    case ErrorCode::kInvalidInput:
    case ErrorCode::kUnsupported:
      return {400, "invalid_request_error"};
    case ErrorCode::kNotFound:
      return {404, "not_found_error"};
    case ErrorCode::kOutOfCapacity:
    case ErrorCode::kCancelled:
      return {kOverloaded, "overloaded_error"};
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return {500, "api_error"};
}

// "messages[2].content[0]" is "messages.2.content.0" here.
std::string dotted(std::string_view field) {
  std::string path;
  for (const char c : field) {
    if (c == '[') path += '.';
    if (c != '[' && c != ']') path += c;
  }
  return path;
}

// The field stands in front, and no more in the sentence: "Invalid type for 'a': expected …" is "a: expected …".
std::string with_path(const Error& error) {
  const std::string path = dotted(error.field());
  if (error.reason() == "missing_required_parameter") return path + ": field required";
  const std::string quoted = fmt::format("'{}': ", error.field());
  const size_t found = error.message().find(quoted);
  return fmt::format("{}: {}", path,
                     found == std::string::npos ? error.message() : error.message().substr(found + quoted.size()));
}

std::string anthropic_message(const Error& error) {
  // Clients read both numbers from this text: keep it exact (spec api 2.3).
  if (const auto& overflow = error.overflow()) {
    return fmt::format("prompt is too long: {} tokens > {} maximum", overflow->n_tokens, overflow->limit);
  }
  return error.field().empty() ? error.message() : with_path(error);
}

constexpr GenerationDialect kMessages = {
    .parse = parse_anthropic_request, .make_writer = make_anthropic_writer, .write_error = write_anthropic_error};

std::unique_ptr<http::Answer> handle_messages(http::Request request, std::string, const App& app) {
  return generate(std::move(request), kMessages, app);
}

std::unique_ptr<http::Answer> handle_count_tokens(http::Request request, std::string, const App& app) {
  const std::string id = request.id;
  return answer_on_worker(app, id, write_anthropic_error,
                          [request = std::move(request),
                           &app](const std::function<bool()>& is_cancelled) mutable -> Result<http::Response> {
                            T9_TRY(chat_request, parse_anthropic_count_request(std::move(request.body), app));
                            T9_TRY(n_tokens, count_prompt_tokens(chat_request, app.context, is_cancelled));
                            return anthropic_response(dump_json({{"input_tokens", n_tokens}}), request.id);
                          });
}

constexpr std::array<Route, 2> kAnthropicRoutes = {
    {{"POST", "/v1/messages", handle_messages}, {"POST", "/v1/messages/count_tokens", handle_count_tokens}}};

}  // namespace

constinit const Dialect kAnthropic = {
    .prefix = "/v1/messages", .routes = kAnthropicRoutes, .write_error = write_anthropic_error};

Json anthropic_error_body(const Error& error) {
  return {{"type", "error"}, {"error", {{"type", form_of(error).type}, {"message", anthropic_message(error)}}}};
}

http::Response write_anthropic_error(const Error& error, std::string_view request_id) {
  Json body = anthropic_error_body(error);
  body["request_id"] = request_id;
  http::Response response = anthropic_response(dump_json(body), request_id);
  response.status = form_of(error).status;
  if (response.status == kOverloaded) response.headers.push_back({"Retry-After", "1"});
  return response;
}

http::Response anthropic_response(std::string body, std::string_view request_id) {
  return {.status = 200,
          .headers = {{"Content-Type", "application/json; charset=utf-8"}, {"request-id", std::string(request_id)}},
          .body = std::move(body)};
}

}  // namespace tempo9::server
