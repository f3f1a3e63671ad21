// JSON Schema to pieces of an automaton. What is enforced: grammar.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/notation.h"

namespace tempo9::grammar {

// How the values of a schema are written.
enum class Written : uint8_t {
  kJson,
  kJsonContent,    // JSON whose strings have no markup of the family around it
  kXmlParameters,  // the members of an object as parameters, as Qwen's XML has the arguments of a call
  kGemma,          // as Gemma 4 has them
};

// Adds any number of schemas to one automaton; what they have in common is written once.
class SchemaCompiler {
 public:
  // `builder` must outlive the compiler. `excluded_in_content`: the markup that kJsonContent leaves out; each begins
  // with '<'.
  explicit SchemaCompiler(AutomatonBuilder& builder, std::vector<std::string> excluded_in_content = {});
  ~SchemaCompiler();
  SchemaCompiler(const SchemaCompiler&) = delete;
  SchemaCompiler& operator=(const SchemaCompiler&) = delete;

  // Adds the values of `schema` behind `from` and returns the node behind them. `context` is put before errors and
  // notes: whose schema this is, or nothing. REQUIRES: `schema` lives as long as the compiler.
  // After an error the schema has added nothing that a grammar would reach.
  Result<NodeId> add_schema(const Json& schema, const CompileOptions& options, const std::string& context,
                            Written written, NodeId from);
  // Any members.
  NodeId add_any_object(Written written, NodeId from);
  JsonNotation& json();
  // What the schemas so far say and the automaton does not hold to.
  std::vector<std::string> take_notes();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tempo9::grammar
