// The Responses dialect of OpenAI: spec api sections 2 and 4. This file: routes and errors; openai_responses_request:
// the wire form of a request; openai_responses_items: what its input says; openai_responses_tools: its tools, and whose
// a call is; openai_responses_answer: what is sent back.
#pragma once

#include <string_view>

#include "server/dialects/dialect.h"

namespace tempo9::server {

extern const Dialect kOpenAiResponses;

// As OpenAI's other routes, and a prompt that is too long is a fault of `input`.
http::Response write_responses_error(const Error& error, std::string_view request_id);

}  // namespace tempo9::server
