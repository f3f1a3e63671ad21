// A tool call written as <function=NAME> with <parameter=KEY> tags around raw values. Spec tool-calling 3.2, 5.2.
#pragma once

#include "chat/tools/call_object.h"
#include "chat/tools/parse_context.h"

namespace tempo9::chat::tools {

// Reads one function at the cursor and writes the call to `out`; string values stream. Behind it the cursor is behind
// </function>, or before what ends a call that lacks it. As for read_call_object, the caller holds a checkpoint for
// kNoCall. A JSON object instead of parameters is the arguments. REQUIRES: "<function" comes next.
Task<CallResult> read_xml_function(ParseContext& context, AnswerSink& out);

// Whether a whole function with a declared name stands at the cursor, </function> included. Writes nothing.
Task<bool> is_whole_xml_function(ParseContext& context);

}  // namespace tempo9::chat::tools
