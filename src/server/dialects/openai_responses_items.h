// What the input of a Responses request says: its items as the messages of a conversation. Spec api 4.2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/images.h"
#include "chat/message.h"
#include "server/dialects/openai_responses_tools.h"
#include "server/field_reader.h"

namespace tempo9::server {

// The text of a reasoning item as its encrypted_content: base64 of "t9:" and the text. An envelope and no secret: it
// lets a client that keeps nothing else give back what the model thought.
std::string seal_reasoning(std::string_view text);

// The array or string `name` of `fields`, appended to `messages`; tools that items declare are added to `tools`. Items
// of the assistant that follow each other are one message. Items that only OpenAI's own servers make, and kinds that
// are not known, are left out and logged. Results and calls are not settled yet (chat/tool_messages.h), so that what
// was said before can be read first. Images go to `images`. Faults are the reader's: files, and images that
// are not taken, with the reason unsupported_content.
void read_responses_items(FieldReader& fields, std::string_view name, ResponsesTools& tools, chat::ImageReader& images,
                          std::vector<chat::Message>& messages);

}  // namespace tempo9::server
