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

// Another form of a call that a family writes, at the beginning of a line.
struct OtherCallForm {
  std::string_view open;  // empty: there is none
  // Reads one, the cursor before `open`; what is none becomes content.
  Task<> (*read)(ParseContext& context) = nullptr;
};

// Content, blocks and calls of the other form, to the end of the answer: that of the text, the last call that the
// request wants, or a tool's response, which the model can only have made up. `at_block`: reasoning has ended at a
// block, before which the cursor is, and may be closed behind it.
Task<> read_content_and_calls(ParseContext& context, bool at_block, OtherCallForm other);

// A code fence and its info word: skipped. The cursor stays when there is none.
Task<bool> skip_fence(TextSource& in);

}  // namespace tempo9::chat::tools
