// Routes and errors of the OpenAI dialect.
#include "server/dialects/openai.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "server/http/errors.h"

namespace tempo9::server {

namespace {

std::unique_ptr<http::Answer> handle_embeddings(http::Request request, std::string, const App&) {
  const Error error = Error(ErrorCode::kUnsupported, "Embeddings are not supported by this server.")
                          .with_reason("unsupported_endpoint");
  return http::answer_with(write_openai_error(error, request.id));
}

// The forms without /v1 are for clients that are given a base URL without it.
constexpr std::array<Route, 9> kOpenAiRoutes = {{{"GET, HEAD", "/v1/models", handle_openai_models},
                                                 {"GET, HEAD", "/v1/models/{id...}", handle_openai_model},
                                                 {"POST", "/v1/chat/completions", handle_openai_chat},
                                                 {"POST", "/v1/completions", handle_openai_completions},
                                                 {"POST", "/v1/embeddings", handle_embeddings},
                                                 {"GET, HEAD", "/models", handle_openai_models},
                                                 {"GET, HEAD", "/models/{id...}", handle_openai_model},
                                                 {"POST", "/chat/completions", handle_openai_chat},
                                                 {"POST", "/completions", handle_openai_completions}}};

// How an error stands in this dialect.
struct Form {
  unsigned status;
  std::string_view type;
  std::string code;       // empty: null
  bool is_final = false;  // a retry cannot help, although the status suggests it
  bool is_busy = false;   // worth a retry soon
};

Form form_of(const Error& error) {
  constexpr std::string_view kInvalidRequest = "invalid_request_error";
  const std::string& reason = error.reason();
  if (error.overflow()) return {400, kInvalidRequest, "context_length_exceeded"};
  if (const auto status = http::transport_status(error)) {
    const bool is_busy = *status >= 500;
    return {.status = *status, .type = is_busy ? "server_error" : kInvalidRequest, .code = reason, .is_busy = is_busy};
  }
  switch (error.code()) {
    case ErrorCode::kInvalidInput:
      return {400, kInvalidRequest, reason};
    case ErrorCode::kNotFound:
      return {404, kInvalidRequest, reason};
    case ErrorCode::kUnsupported:
      if (reason == "unsupported_endpoint") return {501, kInvalidRequest, reason, true};
      return {400, kInvalidRequest, reason.empty() ? "unsupported_parameter" : reason};
    case ErrorCode::kOutOfCapacity:
      return {.status = 429, .type = "rate_limit_error", .code = "rate_limit_exceeded", .is_busy = true};
    case ErrorCode::kCancelled:
      return {.status = 503, .type = "server_error", .code = {}, .is_busy = true};
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return {500, "server_error", reason};
}

// Clients act on this text: keep it exact (spec api 2.3).
std::string openai_message(const Error& error) {
  if (!error.overflow()) return error.message();
  return fmt::format("This model's maximum context length is {} tokens. However, your messages resulted in {} tokens.",
                     error.overflow()->limit, error.overflow()->n_tokens);
}

std::string param_of(const Error& error) {
  return error.field().empty() && error.overflow() ? "messages" : error.field();
}

Json null_if_empty(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

constinit const Dialect kOpenAi = {.prefix = "", .routes = kOpenAiRoutes, .write_error = write_openai_error};

Json openai_error_body(const Error& error) {
  const Form form = form_of(error);
  return {{"error",
           {{"message", openai_message(error)},
            {"type", form.type},
            {"param", null_if_empty(param_of(error))},
            {"code", null_if_empty(form.code)}}}};
}

http::Response write_openai_error(const Error& error, std::string_view request_id) {
  const Form form = form_of(error);
  http::Response response = openai_response(openai_error_body(error), request_id);
  response.status = form.status;
  if (form.is_busy) response.headers.push_back({"Retry-After", "1"});
  if (form.is_final) response.headers.push_back({"x-should-retry", "false"});
  return response;
}

http::Response openai_response(const Json& body, std::string_view request_id) {
  return openai_response_of(dump_json(body), request_id);
}

http::Response openai_response_of(std::string body, std::string_view request_id) {
  return {.status = 200,
          .headers = {{"Content-Type", "application/json; charset=utf-8"}, {"x-request-id", std::string(request_id)}},
          .body = std::move(body)};
}

}  // namespace tempo9::server
