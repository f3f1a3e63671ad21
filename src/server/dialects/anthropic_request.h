// The wire form of /v1/messages and /v1/messages/count_tokens. What else the dialect's files hold: anthropic.h.
#pragma once

#include <string>

#include "base/result.h"
#include "server/app.h"
#include "server/chat_request.h"

namespace tempo9::server {

// Fields that are not read are ignored: betas bring new ones with every release. Those that would change the answer and
// cannot be kept yet are an error of the kind kUnsupported that names them.
Result<ChatRequest> parse_anthropic_request(std::string body, const App& app);

// The same body without max_tokens, for its prompt alone.
Result<ChatRequest> parse_anthropic_count_request(std::string body, const App& app);

}  // namespace tempo9::server
