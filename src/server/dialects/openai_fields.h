// Fields that chat and text completions have in common. Spec api 1.6, 3.2, 8.4.
#pragma once

#include "server/app.h"
#include "server/chat_request.h"
#include "server/field_reader.h"

namespace tempo9::server {

// Answers to one request at most, over all its prompts.
inline constexpr int64_t kMaxOpenAiChoices = 8;

// Which model is asked, and how it is to answer: `model`, `stream` and `stream_options`.
void read_openai_frame(FieldReader& fields, const App& app, ChatRequest& request);

SamplingFields read_openai_sampling(FieldReader& fields);

// `response_format`. A schema that is not strict is held to as well, as far as its keywords can be.
void read_openai_response_format(FieldReader& fields, ChatRequest& request);

}  // namespace tempo9::server
