#include "server/dialects/anthropic.h"

#include <fmt/format.h>

#include "server/http/errors.h"
#include "server/json.h"

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

// Clients read both numbers from this text: keep it exact (spec api 2.3).
std::string message_of(const Error& error) {
  if (!error.overflow()) return error.message();
  return fmt::format("prompt is too long: {} tokens > {} maximum", error.overflow()->n_tokens, error.overflow()->limit);
}

http::Response write_error(const Error& error, std::string_view request_id) {
  const Form form = form_of(error);
  const Json body = {
      {"type", "error"}, {"error", {{"type", form.type}, {"message", message_of(error)}}}, {"request_id", request_id}};
  http::Response response{
      .status = form.status,
      .headers = {{"Content-Type", "application/json; charset=utf-8"}, {"request-id", std::string(request_id)}},
      .body = dump_json(body)};
  if (form.status == kOverloaded) response.headers.push_back({"Retry-After", "1"});
  return response;
}

}  // namespace

constinit const Dialect kAnthropic = {.prefix = "/v1/messages", .routes = {}, .write_error = write_error};

}  // namespace tempo9::server
