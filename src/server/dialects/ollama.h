// The Ollama dialect: spec api sections 2 (errors) and 6. This file: routes and errors; ollama_models: what the server
// says of its model; ollama_request: the wire form of a request; ollama_answer: what is sent back.
#pragma once

#include "server/dialects/dialect.h"
#include "server/json.h"

namespace tempo9::server {

extern const Dialect kOllama;

http::Response write_ollama_error(const Error& error, std::string_view request_id);
// The error object as it also stands in a stream that has started: {"error":"…"}.
Json ollama_error_body(const Error& error);

// The object that a request's body holds.
Result<Json> parse_ollama_object(std::string body);

// 200 with a JSON body.
http::Response ollama_response(std::string body);

// "2026-01-01T10:00:00Z".
std::string rfc3339(int64_t seconds);

std::unique_ptr<http::Answer> handle_ollama_chat(http::Request request, std::string id, const App& app);
std::unique_ptr<http::Answer> handle_ollama_generate(http::Request request, std::string id, const App& app);
std::unique_ptr<http::Answer> handle_ollama_version(http::Request request, std::string id, const App& app);
std::unique_ptr<http::Answer> handle_ollama_tags(http::Request request, std::string id, const App& app);
std::unique_ptr<http::Answer> handle_ollama_ps(http::Request request, std::string id, const App& app);
std::unique_ptr<http::Answer> handle_ollama_show(http::Request request, std::string id, const App& app);
std::unique_ptr<http::Answer> handle_ollama_pull(http::Request request, std::string id, const App& app);

}  // namespace tempo9::server
