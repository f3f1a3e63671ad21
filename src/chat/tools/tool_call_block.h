// <tool_call> … </tool_call> with calls inside, in JSON or XML: the form that the Hermes and Qwen families share.
#pragma once

#include "chat/tools/parse_context.h"

namespace tempo9::chat::tools {

inline constexpr std::string_view kToolCallOpen = "<tool_call>";
inline constexpr std::string_view kToolCallClose = "</tool_call>";
inline constexpr std::string_view kToolResponse = "<tool_response>";

extern const ReasoningTags kThinkTags;  // <think>, which such a block may end

// The block at the cursor: its calls, or its opening tag as content when nothing in it is a call.
// REQUIRES: kToolCallOpen comes next.
Task<> read_tool_call_block(ParseContext& context);

// A code fence and its info word: skipped. The cursor stays when there is none.
Task<bool> skip_fence(TextSource& in);

}  // namespace tempo9::chat::tools
