// The OpenAI dialect: spec api sections 2 and 3.
#pragma once

#include "server/dialects/dialect.h"
#include "server/json.h"

namespace tempo9::server {

extern const Dialect kOpenAi;

http::Response write_openai_error(const Error& error, std::string_view request_id);
// The error object's body, {"error":{…}}, as it also stands in a stream that has started.
Json openai_error_body(const Error& error);

// 200 with a JSON body and the headers of this dialect.
http::Response openai_response(const Json& body, std::string_view request_id);
// The body as text.
http::Response openai_response_of(std::string body, std::string_view request_id);

std::unique_ptr<http::Answer> handle_openai_chat(http::Request request, std::string id, const App& app);
std::unique_ptr<http::Answer> handle_openai_completions(http::Request request, std::string id, const App& app);
std::unique_ptr<http::Answer> handle_openai_models(http::Request request, std::string id, const App& app);
std::unique_ptr<http::Answer> handle_openai_model(http::Request request, std::string id, const App& app);

}  // namespace tempo9::server
