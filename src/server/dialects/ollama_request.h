// The wire form of /api/chat and /api/generate. What else the dialect's files hold: ollama.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/app.h"
#include "server/chat_request.h"

namespace tempo9::server {

// Fields that are not read are ignored. Those that would change the answer and are not built are an error that names
// them. A request without messages, or without a prompt, asks for residency.
Result<ChatRequest> parse_ollama_chat(std::string body, const App& app);
Result<ChatRequest> parse_ollama_generate(std::string body, const App& app);

// "5m", "1h30m", "300ms", "-1", "0": in seconds. Nothing for other text.
std::optional<double> parse_go_duration(std::string_view text);

}  // namespace tempo9::server
