// The messages and tools of an OpenAI chat body (spec api 3.2, 3.3) as a Conversation. Only what reaches the prompt:
// sampling, streaming and tool_choice are the dialect's.
#pragma once

#include "base/result.h"
#include "chat/images.h"
#include "chat/message.h"

namespace tempo9::chat {

// Reads messages, tools, functions, chat_template_kwargs, enable_thinking, reasoning_effort, reasoning and
// add_generation_prompt.
// Unknown fields are ignored, null counts as absent.
// REQUIRES: `body` nests no deeper than parse_json_text allows.
// Images go to `images`.
// Errors: kInvalidInput with field() = path ("messages[2].content") and reason() = invalid_type, invalid_value,
// missing_required_parameter or unsupported_content.
Result<Conversation> parse_openai_conversation(const Json& body, ImageReader& images);
// Without a vision tower.
Result<Conversation> parse_openai_conversation(const Json& body);

// `messages`: an array of at least one message. developer counts as system, function as tool. Text parts are joined;
// calls and results are settled (tool_messages.h).
Result<std::vector<Message>> parse_openai_messages(const Json& messages, ImageReader& images);
Result<std::vector<Message>> parse_openai_messages(const Json& messages);

// `tools`: function and custom tools in the form templates are given, {"type":"function","function":{name, description,
// parameters, …}}; tools of other types are left out.
Result<std::vector<Json>> parse_openai_tools(const Json& tools);

// `body`: chat_template_kwargs, which win over everything, enable_thinking, reasoning_effort and reasoning, as
// template_kwargs and reasoning_effort of the conversation.
Result<void> read_template_kwargs(const Json& body, Conversation& conversation);

}  // namespace tempo9::chat
