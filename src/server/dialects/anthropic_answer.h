// The answers of /v1/messages: spec api 5.3 and 5.4.
#pragma once

#include <memory>
#include <string>

#include "server/generation.h"

namespace tempo9::server {

std::unique_ptr<AnswerWriter> make_anthropic_writer(const ChatRequest& request, const App& app, std::string request_id);

}  // namespace tempo9::server
