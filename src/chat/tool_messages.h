// What the readers of every API's messages have in common about tools.
#pragma once

#include <string_view>
#include <vector>

#include "chat/message.h"

namespace tempo9::chat {

// Stands in a tool's result for an image that nobody can look at. A refusal would end the conversation: clients send
// the same history with every turn.
inline constexpr std::string_view kImageNote = "[image left out: this server has no vision tower]";

// The arguments of a call in a conversation's history, as clients send them back: an object, or JSON text that holds
// one. Absent or blank means none; other text stays as it came.
Json read_arguments(const Json* arguments);

// A function in the form that templates are given, {"type":"function","function":{…}}, with the client's keys in their
// order, and with the description and the parameters that templates take for granted.
// REQUIRES: an object; `description` a string, `parameters` an object, either may be absent or null.
Json function_tool(Json function);

// Every call gets one result, in the order of the calls, directly after the message that made it: a missing one is
// empty, of several the last counts. A result whose id is absent or names no call answers the next open call of its
// name, else the next one; without any it becomes a user message. Calls without an id get one from their place in the
// conversation, so that the same history always renders the same prompt. Calls at the very end are left open.
void settle_tool_results(std::vector<Message>& messages);

}  // namespace tempo9::chat
