// From a neutral request to the engine's: the conversation rendered by the model's template, as token ids.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "engine/request.h"
#include "server/chat_request.h"
#include "server/server.h"

namespace tempo9::server {

// Who asks, for logs and for fair queueing.
struct Sender {
  std::string request_id;
  std::string client;
};

// May take long (a megabyte of prompt is tokenized here): not for network threads. `is_cancelled` is asked now and
// then. Errors: the template's and the tokenizer's; kInvalidInput with overflow() when the prompt leaves no room for a
// token.
Result<engine::Request> prepare(const ChatRequest& request, const ServerContext& context, const Sender& sender,
                                const std::function<bool()>& is_cancelled);

}  // namespace tempo9::server
