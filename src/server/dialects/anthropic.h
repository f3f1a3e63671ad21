// The Anthropic dialect: spec api sections 2 (errors) and 5. This file: routes and errors; anthropic_request: the wire
// form of a request; anthropic_conversation: its messages; anthropic_answer: what is sent back.
#pragma once

#include <string>
#include <string_view>

#include "server/dialects/dialect.h"
#include "server/json.h"

namespace tempo9::server {

extern const Dialect kAnthropic;

http::Response write_anthropic_error(const Error& error, std::string_view request_id);
// The error object as it stands in a stream that has started: {"type":"error","error":{…}}.
Json anthropic_error_body(const Error& error);

// 200 with a JSON body and the headers of this dialect.
http::Response anthropic_response(std::string body, std::string_view request_id);

}  // namespace tempo9::server
