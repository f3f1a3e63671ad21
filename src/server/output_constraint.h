// What a request wants its answer held to, as a grammar for the engine: a response schema, or calls of tools in the
// form that the model's family writes.
//
// - A forced call: reasoning if the model writes any, then calls and nothing else; arguments by each tool's schema.
// - A schema without tools: reasoning, then content by the schema.
// - A schema beside tools: reasoning, then either calls or content by the schema, never both. (A forced call leaves no
//   content for the schema to hold.)
// - Tools that may be called, some of them strict, or not all of them allowed: anything, but where the family's marker
// of a call stands, a call of a
//   declared tool follows. The arguments of strict tools are held to their schemas.
#pragma once

#include "base/result.h"
#include "chat/tools/dialect.h"
#include "engine/request.h"
#include "grammar/cache.h"
#include "server/chat_request.h"

namespace tempo9::server {

// How an answer begins.
struct AnswerBeginning {
  const chat::tools::Dialect& dialect;
  chat::tools::Start start = chat::tools::Start::kMaybeReasoning;
  bool may_reason = false;  // the model may open reasoning itself
};

// Empty when the request asks for nothing of the kind.
// Errors: kInvalidInput, reason invalid_schema, for what cannot be compiled, naming the place in the schema.
Result<engine::Constraint> make_constraint(const ChatRequest& request, const AnswerBeginning& beginning,
                                           grammar::GrammarCache& grammars);

}  // namespace tempo9::server
