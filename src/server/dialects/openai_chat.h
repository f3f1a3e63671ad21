// POST /v1/chat/completions, in two halves: what the client asked for, and how it is answered. Spec api 3.2 to 3.5.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "server/app.h"
#include "server/chat_request.h"
#include "server/generation.h"

namespace tempo9::server {

Result<ChatRequest> parse_openai_chat(std::string body, const App& app);

std::unique_ptr<AnswerWriter> make_openai_chat_writer(const ChatRequest& request, const App& app,
                                                      std::string request_id);

}  // namespace tempo9::server
