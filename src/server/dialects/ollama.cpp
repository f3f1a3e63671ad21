#include "server/dialects/ollama.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <ctime>
#include <string_view>
#include <utility>

#include "server/http/errors.h"

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

std::string ollama_message(const Error& error) {
  if (const auto& overflow = error.overflow()) {
    return fmt::format("prompt too long; exceeded max context length by {} tokens ({} tokens, context {})",
                       overflow->n_tokens - overflow->limit, overflow->n_tokens, overflow->limit);
  }
  if (error.code() == ErrorCode::kOutOfCapacity && error.reason().empty()) {
    return "server busy, please try again. maximum pending requests exceeded";
  }
  if (error.reason() == "invalid_image") return "invalid image input: " + error.message();
  return error.message();
}

std::unique_ptr<http::Answer> refuse_route(const http::Request& request, std::string_view what) {
  const Error error = Error(ErrorCode::kUnsupported, fmt::format("{} not supported by this server", what))
                          .with_reason("unsupported_endpoint");
  return http::answer_with(write_ollama_error(error, request.id));
}

std::unique_ptr<http::Answer> handle_embeddings(http::Request request, std::string, const App&) {
  return refuse_route(request, "embeddings are");
}

// What would change a store of models: there is none, only the file that is served.
std::unique_ptr<http::Answer> handle_store(http::Request request, std::string, const App&) {
  constexpr std::string_view kPrefix = "/api/";
  const std::string_view rest = std::string_view(request.path).substr(kPrefix.size());
  return refuse_route(request, fmt::format("{} is", rest.substr(0, rest.find('/'))));
}

constexpr std::string_view kAnyMethod = "GET, HEAD, POST, DELETE";

constexpr std::array<Route, 14> kOllamaRoutes = {{{"GET, HEAD", "/api/version", handle_ollama_version},
                                                  {"GET, HEAD", "/api/tags", handle_ollama_tags},
                                                  {"GET, HEAD", "/api/ps", handle_ollama_ps},
                                                  {"POST", "/api/show", handle_ollama_show},
                                                  {"POST", "/api/chat", handle_ollama_chat},
                                                  {"POST", "/api/generate", handle_ollama_generate},
                                                  {"POST", "/api/embed", handle_embeddings},
                                                  {"POST", "/api/embeddings", handle_embeddings},
                                                  {"POST", "/api/pull", handle_ollama_pull},
                                                  {kAnyMethod, "/api/push", handle_store},
                                                  {kAnyMethod, "/api/create", handle_store},
                                                  {kAnyMethod, "/api/copy", handle_store},
                                                  {kAnyMethod, "/api/delete", handle_store},
                                                  {kAnyMethod, "/api/blobs/{id...}", handle_store}}};

}  // namespace

constinit const Dialect kOllama = {.prefix = "/api/", .routes = kOllamaRoutes, .write_error = write_ollama_error};

Json ollama_error_body(const Error& error) { return {{"error", ollama_message(error)}}; }

http::Response write_ollama_error(const Error& error, std::string_view) {
  http::Response response = ollama_response(dump_json(ollama_error_body(error)));
  response.status = status_of(error);
  if (response.status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

Result<Json> parse_ollama_object(std::string body) {
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) {
    return fail(ErrorCode::kInvalidInput, "missing request body");
  }
  return parse_json_object(std::move(body));
}

http::Response ollama_response(std::string body) {
  return {.status = 200, .headers = {{"Content-Type", "application/json; charset=utf-8"}}, .body = std::move(body)};
}

std::string rfc3339(int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

}  // namespace tempo9::server
