// What a chat template can take. Templates raise, or drop text without a word, when a conversation is not the kind they
// were written for; found out once, by rendering small conversations. Spec tool-calling 10.2.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "chat/message.h"

namespace tempo9::chat {

// Of a template about which nothing is known everything is true.
struct TemplateTraits {
  bool takes_system = true;           // at the beginning
  bool takes_later_system = true;     // after other messages
  bool takes_same_role_twice = true;  // two user messages in a row
  bool takes_no_user = true;          // a conversation without user messages
  bool takes_tools = true;
  bool takes_tool_calls = true;
  bool takes_parallel_calls = true;  // several in one message
  bool takes_tool_results = true;
  bool takes_text_with_reasoning = true;  // content and reasoning in one message with calls
  bool takes_any_call_id = true;          // else nine letters and digits
  bool takes_plain_text = true;           // else it may read members of content parts; the others are true then
};

// The prompt for these template variables; nothing when the template raises.
using RenderProbe = std::function<std::optional<std::string>(const Json& variables)>;

TemplateTraits probe_template(const RenderProbe& render);

// Whether `enable_thinking` makes a difference.
bool switches_thinking(const RenderProbe& render);

}  // namespace tempo9::chat
