#include "grammar/grammar.h"

#include <utility>

#include "base/check.h"
#include "grammar/schema_compiler.h"

namespace tempo9::grammar {

Result<std::shared_ptr<const Grammar>> Grammar::compile(const nlohmann::ordered_json& schema,
                                                        const CompileOptions& options) {
  AutomatonBuilder builder;
  SchemaCompiler compiler(builder);
  const RuleId rule = builder.add_rule();
  const NodeId begin = compiler.json().white_space(builder.start(rule));
  T9_TRY(end, compiler.add_schema(schema, options, "", Written::kJson, begin));
  builder.add_return(end);
  return build(std::move(builder), rule, compiler.take_notes());
}

Result<std::shared_ptr<const Grammar>> Grammar::build(AutomatonBuilder builder, RuleId root,
                                                      std::vector<std::string> not_enforced) {
  auto automaton = std::move(builder).build(root);
  if (!automaton) return fail(std::move(automaton).error().context("schema"));
  return std::shared_ptr<const Grammar>(new Grammar(*std::move(automaton), std::move(not_enforced)));
}

std::shared_ptr<const Grammar> Grammar::any_object() {
  auto grammar = compile({{"type", "object"}});
  T9_CHECK(grammar.has_value());
  return *std::move(grammar);
}

}  // namespace tempo9::grammar
