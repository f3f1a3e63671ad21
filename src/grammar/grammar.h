// Constrained output: a JSON Schema compiled to a byte automaton, and a matcher that follows the output through it and
// says which tokens may come next.
//
// What is enforced: type, properties, required, additionalProperties, items, prefixItems, minItems, maxItems, enum,
// const, anyOf, oneOf, allOf, $ref with $defs and definitions (recursive), minLength, maxLength, pattern (the subset in
// pattern.h), minimum, maximum and their exclusive forms for integers, format date, time, date-time and uuid. Every
// other keyword that restricts is named by Grammar::not_enforced(), or refused when the caller asks for that. Output is
// narrower than the schema in a few ways, all of which leave it valid: properties come in the order of the schema and
// additional ones last; names of additional properties have no escapes; a value without `type` is of the types its
// other keywords speak of; white space between tokens is limited.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"

namespace tempo9::grammar {

struct CompileOptions {
  // Objects are closed where the schema does not say: for strict tools. Otherwise as in JSON Schema, open.
  bool closed_objects = false;
  // A keyword that is not enforced is an error.
  bool refuse_unenforced = false;
};

// Immutable; any thread may use it.
class Grammar {
 public:
  // Errors name the place as a JSON pointer and the keyword: kInvalidInput for a schema that is malformed, refers to
  // nothing or admits no value, kUnsupported for one that cannot be enforced, kOutOfCapacity for one that is too large.
  static Result<std::shared_ptr<const Grammar>> compile(const nlohmann::ordered_json& schema,
                                                        const CompileOptions& options = {});
  // One JSON object of any content.
  static std::shared_ptr<const Grammar> any_object();
  // From an automaton made elsewhere in this folder. Errors: as of AutomatonBuilder::build.
  static Result<std::shared_ptr<const Grammar>> build(AutomatonBuilder builder, RuleId root,
                                                      std::vector<std::string> not_enforced);

  const Automaton& automaton() const { return automaton_; }
  // "#/properties/n: multipleOf": what the schema says and the grammar does not hold the output to.
  const std::vector<std::string>& not_enforced() const { return not_enforced_; }

 private:
  Grammar(Automaton automaton, std::vector<std::string> not_enforced)
      : automaton_(std::move(automaton)), not_enforced_(std::move(not_enforced)) {}

  Automaton automaton_;
  std::vector<std::string> not_enforced_;
};

}  // namespace tempo9::grammar
