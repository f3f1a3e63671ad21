// A tool call written as a JSON object: {"name": …, "arguments": {…}} and what models make of that. Spec tool-calling
// 3.1, 3.3, 5.3.
#pragma once

#include <span>
#include <string_view>

#include "chat/tools/parse_context.h"

namespace tempo9::chat::tools {

enum class CallForm {
  kMarked,   // a marker says that it is a call: it begins when its name is known
  kGuessed,  // it only looks like one: the name must be declared and arguments there, both soon
};

enum class CallResult {
  kNoCall,    // nothing was written; the caller passes the text on as content
  kComplete,  // begun and ended
  kBroken,    // begun, and the text ended or went wrong inside; ended as incomplete
};

// Reads one object at the cursor and writes the call to `out`; arguments stream. Behind it the cursor is behind the
// object, or before `end_tag` (may be empty), which ends a call outside of strings. After kNoCall the cursor is
// anywhere behind: the caller holds a checkpoint. REQUIRES: '{' comes next.
Task<CallResult> read_call_object(ParseContext& context, AnswerSink& out, CallForm form, std::string_view end_tag);

// Objects in an array, all or nothing: whether each is a call by the rules of kGuessed and the array closes. Writes
// nothing. REQUIRES: '[' comes next.
Task<bool> is_call_array(ParseContext& context);
// The calls of an array. REQUIRES: '[' comes next.
Task<CallResult> read_call_array(ParseContext& context, AnswerSink& out, std::string_view end_tag);

// The value of a call's arguments at the cursor, whatever it is, after begin_call: an object streams, null and "" are
// {}, a string that holds an object is that object. True when it is whole.
Task<bool> read_arguments(ParseContext& context, AnswerSink& out, const Tool* tool, std::string_view end_tag);

// The object at the cursor, streamed as arguments. False when the text, or at one of `end_tags` (which all begin with
// '<') the call, ends inside. REQUIRES: '{' comes next.
Task<bool> stream_object(ParseContext& context, AnswerSink& out, const Tool* tool,
                         std::span<const std::string_view> end_tags);

// The string literal at the cursor. False when the text ends inside.
Task<bool> skip_json_string(TextSource& in);

}  // namespace tempo9::chat::tools
