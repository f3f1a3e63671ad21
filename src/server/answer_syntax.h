// How model families write calls and reasoning, as grammars need it (spec tool-calling 8).
#pragma once

#include <string_view>

#include "grammar/answer.h"

namespace tempo9::server {

// REQUIRES: a name of chat/tools/list.cpp.
grammar::AnswerSyntax answer_syntax(std::string_view dialect);

}  // namespace tempo9::server
