// Output that is calls of declared tools, in a family's own form, with the arguments as JSON by each tool's schema.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "grammar/grammar.h"

namespace tempo9::grammar {

struct ToolSignature {
  std::string name;
  nlohmann::ordered_json parameters;  // a schema; references are to places in it
  bool is_strict = false;             // its objects are closed where the schema does not say
};

// A call is begin + name + arguments_begin + JSON + end; the output is first, one call or more with `between` between
// them, and last. All are exact text; Hermes, for example, has
//   begin `<tool_call>\n{"name": "`, arguments_begin `", "arguments": `, end `}\n</tool_call>` and between `\n`.
// REQUIRES: a call is at least one byte longer than its arguments.
struct CallSyntax {
  std::string first = {};
  std::string begin = {};
  std::string arguments_begin = {};
  std::string end = {};
  std::string between = {};
  std::string last = {};
  bool allows_several = true;  // off for parallel_tool_calls: false
};

// Only `tools` can be called: pass one for a named tool_choice. Names are written as they are.
// Errors: as of Grammar::compile, naming the tool; kInvalidInput when there is no tool.
Result<std::shared_ptr<const Grammar>> compile_tool_calls(std::span<const ToolSignature> tools,
                                                          const CallSyntax& syntax, const CompileOptions& options = {});

}  // namespace tempo9::grammar
