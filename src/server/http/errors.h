// Errors of the transport itself, which every dialect reports in its own shape but with the same status.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tempo9::server::http {

Error bad_request(std::string_view what);
Error request_timed_out();
Error headers_too_large(size_t limit_bytes);
Error body_too_large(size_t limit_bytes);
Error unsupported_encoding(std::string_view encoding);
Error too_many_connections(size_t limit);
Error no_such_route(std::string_view method, std::string_view path, std::string_view routes);
Error method_not_allowed(std::string_view method, std::string_view path, std::string_view allowed);

// The status of an error made by one of the functions above; nothing for any other.
std::optional<unsigned> transport_status(const Error& error);

}  // namespace tempo9::server::http
