// JSON Schema to pieces of an automaton. What is enforced: grammar.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/json_rules.h"

namespace tempo9::grammar {

// Adds any number of schemas to one automaton; what they have in common is written once.
class SchemaCompiler {
 public:
  // `builder` must outlive the compiler.
  explicit SchemaCompiler(AutomatonBuilder& builder);
  ~SchemaCompiler();
  SchemaCompiler(const SchemaCompiler&) = delete;
  SchemaCompiler& operator=(const SchemaCompiler&) = delete;

  // Adds the values of `schema` behind `from` and returns the node behind them. `context` is put before errors and
  // notes: whose schema this is, or nothing. REQUIRES: `schema` lives as long as the compiler.
  Result<NodeId> add_schema(const Json& schema, const CompileOptions& options, const std::string& context, NodeId from);
  JsonRules& json();
  // What the schemas so far say and the automaton does not hold to.
  std::vector<std::string> take_notes();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tempo9::grammar
