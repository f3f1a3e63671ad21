// JSON Schema to automaton. What is enforced: grammar.h.
#pragma once

#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace tempo9::grammar {

struct CompiledSchema {
  Automaton automaton;
  std::vector<std::string> not_enforced;
};

Result<CompiledSchema> compile_schema(const nlohmann::ordered_json& schema, const CompileOptions& options);

}  // namespace tempo9::grammar
