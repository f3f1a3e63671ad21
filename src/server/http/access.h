// Who may ask: a web page in the user's browser must not be able to reach a server without authentication.
// Spec api section 1.5.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/message.h"

namespace tempo9::server::http {

// Against DNS rebinding: `host` (a Host header, with or without a port) is a name or literal that a foreign web page
// cannot point at this machine. `own_name` is the machine's hostname.
bool is_local_host(std::string_view host, std::string_view own_name);

// Against cross-site requests: `origin` belongs to a page, an extension or a desktop shell of this machine.
bool is_allowed_origin(std::string_view origin);

// Both checks on a request. Several Host or Origin headers must all pass.
bool may_ask(const Request& request, std::string_view own_name);

// What every response to a request with an allowed origin carries; empty without an Origin header, and for a foreign
// one.
std::vector<Header> cors_headers(const Request& request);
// What the answer to a preflight adds to that.
std::vector<Header> preflight_headers(const Request& request);

}  // namespace tempo9::server::http
