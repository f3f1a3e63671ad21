// What a request wants its answer held to, as a grammar for the engine: a response schema, or calls of tools in the
// form that the model's family writes.
#pragma once

#include "base/result.h"
#include "chat/tools/dialect.h"
#include "engine/request.h"
#include "grammar/cache.h"
#include "server/chat_request.h"

namespace tempo9::server {

// Empty when the request asks for nothing of the kind. `start`: how the answer begins; when the prompt has opened the
// reasoning, the constraint begins behind it.
// Errors: kInvalidInput, reason invalid_schema, for what cannot be compiled, naming the place in the schema;
// kUnsupported, reason unsupported_parameter, for a family whose form no grammar is written for.
Result<engine::Constraint> make_constraint(const ChatRequest& request, const chat::tools::Dialect& dialect,
                                           chat::tools::Start start, grammar::GrammarCache& grammars);

}  // namespace tempo9::server
