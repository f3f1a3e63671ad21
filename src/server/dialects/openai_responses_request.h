// The wire form of POST /v1/responses. What else the dialect's files hold: openai_responses.h.
#pragma once

#include <string>

#include "base/result.h"
#include "server/app.h"
#include "server/chat_request.h"
#include "server/dialects/openai_responses_tools.h"

namespace tempo9::server {

// What the answer needs of its request.
struct ResponsesExtras : DialectExtras {
  ResponsesTools tools;
  Json echo;                     // members of the response object that say what was asked for
  bool summarizes = false;       // reasoning is shown as its summary, else as its content
  bool seals_reasoning = false;  // reasoning has encrypted_content
  bool is_stored = false;        // the response is kept
  std::string items;             // with is_stored: the conversation so far, in the form of StoredResponse
};

// Fields that are not read are ignored. The result's extras are ResponsesExtras.
// Errors: of the fields; kInvalidInput, reason previous_response_not_found; kUnsupported naming what would change the
// answer and cannot be kept.
Result<ChatRequest> parse_responses_request(std::string body, const App& app);

}  // namespace tempo9::server
