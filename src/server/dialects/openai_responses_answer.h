// The answers of POST /v1/responses: spec api 4.4 to 4.6.
#pragma once

#include <memory>
#include <string>

#include "server/generation.h"

namespace tempo9::server {

// A whole answer is the object that ends a stream. REQUIRES: `request` comes from parse_responses_request.
std::unique_ptr<AnswerWriter> make_responses_writer(const ChatRequest& request, const App& app, std::string request_id);

}  // namespace tempo9::server
