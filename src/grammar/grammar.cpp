#include "grammar/grammar.h"

#include <utility>

#include "base/check.h"
#include "grammar/schema_compiler.h"

namespace tempo9::grammar {

Result<std::shared_ptr<const Grammar>> Grammar::compile(const nlohmann::ordered_json& schema,
                                                        const CompileOptions& options) {
  T9_TRY(compiled, compile_schema(schema, options));
  return std::shared_ptr<const Grammar>(new Grammar(std::move(compiled.automaton), std::move(compiled.not_enforced)));
}

std::shared_ptr<const Grammar> Grammar::any_object() {
  auto grammar = compile({{"type", "object"}});
  T9_CHECK(grammar.has_value());
  return *std::move(grammar);
}

}  // namespace tempo9::grammar
