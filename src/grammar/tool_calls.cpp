#include "grammar/tool_calls.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "grammar/automaton.h"
#include "grammar/schema_compiler.h"

namespace tempo9::grammar {

Result<std::shared_ptr<const Grammar>> compile_tool_calls(std::span<const ToolSignature> tools,
                                                          const CallSyntax& syntax, const CompileOptions& options) {
  if (tools.empty()) return fail(ErrorCode::kInvalidInput, "there is no tool to call");
  AutomatonBuilder builder;
  SchemaCompiler compiler(builder);
  const RuleId rule = builder.add_rule();
  const NodeId call = builder.add_literal(builder.start(rule), syntax.first);
  const NodeId behind = builder.add_node();
  for (const ToolSignature& tool : tools) {
    const NodeId arguments = builder.add_literal(call, syntax.begin + tool.name + syntax.arguments_begin);
    CompileOptions of_tool = options;
    of_tool.closed_objects |= tool.is_strict;
    const std::string name = fmt::format("tool {}", sanitize_utf8(tool.name));
    auto end = compiler.add_schema(tool.parameters, of_tool, name, arguments);
    if (!end) return fail(std::move(end).error());
    builder.add_free(builder.add_literal(*end, syntax.end), behind);
  }
  if (syntax.allows_several) builder.add_free(builder.add_literal(behind, syntax.between), call);
  builder.add_return(builder.add_literal(behind, syntax.last));
  return Grammar::build(std::move(builder), rule, compiler.take_notes());
}

}  // namespace tempo9::grammar
