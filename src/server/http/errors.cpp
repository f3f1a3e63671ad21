#include "server/http/errors.h"

#include <fmt/format.h>

#include <array>

namespace tempo9::server::http {

namespace {

struct ReasonStatus {
  std::string_view reason;
  unsigned status;
};

constexpr std::array<ReasonStatus, 8> kStatuses = {{{"bad_request", 400},
                                                    {"route_not_found", 404},
                                                    {"method_not_allowed", 405},
                                                    {"request_timeout", 408},
                                                    {"body_too_large", 413},
                                                    {"unsupported_encoding", 415},
                                                    {"headers_too_large", 431},
                                                    {"too_many_connections", 503}}};

}  // namespace

Error bad_request(std::string_view what) {
  return Error(ErrorCode::kInvalidInput, fmt::format("This is not a valid HTTP request: {}.", what))
      .with_reason("bad_request");
}

Error request_timed_out() {
  return Error(ErrorCode::kInvalidInput, "The request did not arrive in time.").with_reason("request_timeout");
}

Error headers_too_large(size_t limit_bytes) {
  return Error(ErrorCode::kInvalidInput,
               fmt::format("The request line and headers are larger than {} KiB.", limit_bytes >> 10))
      .with_reason("headers_too_large");
}

Error body_too_large(size_t limit_bytes) {
  return Error(ErrorCode::kInvalidInput, fmt::format("The request body is larger than {} bytes.", limit_bytes))
      .with_reason("body_too_large");
}

Error unsupported_encoding(std::string_view encoding) {
  return Error(ErrorCode::kUnsupported,
               fmt::format("Content-Encoding '{}' is not supported; send the body as it is.", encoding))
      .with_reason("unsupported_encoding");
}

Error too_many_connections(size_t limit) {
  return Error(ErrorCode::kOutOfCapacity,
               fmt::format("The server has {} open connections, its limit; try again in a moment.", limit))
      .with_reason("too_many_connections");
}

Error no_such_route(std::string_view method, std::string_view path, std::string_view routes) {
  return Error(ErrorCode::kNotFound, fmt::format("There is no {} {} here. Routes: {}.", method, path, routes))
      .with_reason("route_not_found");
}

Error method_not_allowed(std::string_view method, std::string_view path, std::string_view allowed) {
  return Error(ErrorCode::kInvalidInput, fmt::format("{} does not take {}; it takes {}.", path, method, allowed))
      .with_reason("method_not_allowed");
}

std::optional<unsigned> transport_status(const Error& error) {
  for (const ReasonStatus& entry : kStatuses) {
    if (entry.reason == error.reason()) return entry.status;
  }
  return std::nullopt;
}

}  // namespace tempo9::server::http
