// Writes calls that were read from Python text.
#pragma once

#include <string>
#include <vector>

#include "chat/tools/parse_context.h"
#include "chat/tools/python_literal.h"

namespace tempo9::chat::tools {

// Whole, as compact JSON, with values typed by rule J. `tool` is null for a name that is not declared.
void write_python_call(AnswerSink& out, const PythonCall& call, const Tool* tool);

// Behind the bracket that closes the one at the cursor, over Python strings. False when the text ends before.
Task<bool> skip_python_brackets(TextSource& in);

}  // namespace tempo9::chat::tools
