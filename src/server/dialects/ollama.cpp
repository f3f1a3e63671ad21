#include "server/dialects/ollama.h"

#include <fmt/format.h>

#include <array>

#include "server/http/errors.h"
#include "server/json.h"

namespace tempo9::server {

namespace {

unsigned status_of(const Error& error) {
  if (error.overflow()) return 400;
  if (const auto status = http::transport_status(error)) return *status;
  switch (error.code()) {
    case ErrorCode::kInvalidInput:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kUnsupported:
      return error.reason() == "unsupported_endpoint" ? 501 : 400;
    case ErrorCode::kOutOfCapacity:
    case ErrorCode::kCancelled:
      return 503;
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return 500;
}

std::string message_of(const Error& error) {
  if (const auto& overflow = error.overflow()) {
    return fmt::format("prompt too long; exceeded max context length by {} tokens ({} tokens, context {})",
                       overflow->n_tokens - overflow->limit, overflow->n_tokens, overflow->limit);
  }
  if (error.code() == ErrorCode::kOutOfCapacity && error.reason().empty()) {
    return "server busy, please try again. maximum pending requests exceeded";
  }
  return error.message();
}

http::Response write_error(const Error& error, std::string_view) {
  const Json body = {{"error", message_of(error)}};
  http::Response response{.status = status_of(error),
                          .headers = {{"Content-Type", "application/json; charset=utf-8"}},
                          .body = dump_json(body)};
  if (response.status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

std::unique_ptr<http::Answer> handle_embeddings(http::Request request, std::string, const App&) {
  const Error error =
      Error(ErrorCode::kUnsupported, "embeddings are not supported by this server").with_reason("unsupported_endpoint");
  return http::answer_with(write_error(error, request.id));
}

constexpr std::array<Route, 2> kRoutes = {
    {{"POST", "/api/embed", handle_embeddings}, {"POST", "/api/embeddings", handle_embeddings}}};

}  // namespace

constinit const Dialect kOllama = {.prefix = "/api/", .routes = kRoutes, .write_error = write_error};

}  // namespace tempo9::server
