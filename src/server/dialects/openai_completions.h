// POST /v1/completions: text that goes to the model as it is, and comes back as it is. Spec api 3.6.
#pragma once

#include <string>

#include "base/result.h"
#include "server/app.h"
#include "server/chat_request.h"

namespace tempo9::server {

// Fields that are not read are ignored.
Result<ChatRequest> parse_openai_completion(std::string body, const App& app);

}  // namespace tempo9::server
