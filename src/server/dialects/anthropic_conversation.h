// The conversation of an Anthropic request (spec api 5.1, 5.2): system, messages and tools, as far as they reach the
// prompt.
#pragma once

#include <vector>

#include "chat/images.h"
#include "chat/message.h"
#include "server/field_reader.h"

namespace tempo9::server {

// `system` and `messages`. tool_result blocks become messages of their own, tool_use and thinking blocks part of the
// assistant's; calls and results are settled (chat/tool_messages.h). Blocks that only Anthropic's own servers make are
// left out. Images go to `images`. Faults are the reader's: PDF, and images that are not taken, with the
// reason unsupported_content.
std::vector<chat::Message> read_anthropic_messages(FieldReader& fields, chat::ImageReader& images);

// `tools`: those that the client runs and describes by a schema, in the form that templates are given.
std::vector<chat::Json> read_anthropic_tools(FieldReader& fields);

}  // namespace tempo9::server
