#include "server/output_constraint.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "server/answer_syntax.h"
#include "server/json.h"

namespace tempo9::server {

namespace {

using Calls = grammar::AnswerRules::Calls;
using Reasoning = grammar::AnswerRules::Reasoning;

// `tool` as a client declares it.
grammar::ToolSignature signature_of(const Json& function) {
  const std::string quoted = dump_json(function["name"]);  // names stand in JSON
  const Json empty = {{"type", "object"}, {"properties", Json::object()}};
  const Json parameters = function.value("parameters", Json());
  return {.name = quoted.substr(1, quoted.size() - 2),
          .parameters = parameters.is_object() ? parameters : empty,
          .is_strict = function.value("strict", Json()) == Json(true)};
}

bool can_be_called(const ChatRequest& request, const Json& name) {
  if (!request.forced_tool.empty() && name != Json(request.forced_tool)) return false;
  const std::vector<std::string>& allowed = request.allowed_tools;
  return allowed.empty() || std::ranges::find(allowed, name.get_ref<const std::string&>()) != allowed.end();
}

// Those that can be called.
std::vector<grammar::ToolSignature> signatures_of(const ChatRequest& request) {
  std::vector<grammar::ToolSignature> tools;
  for (const Json& tool : request.conversation.tools) {
    const Json function = tool.value("function", Json());
    if (!function.is_object() || !function.value("name", Json()).is_string()) continue;
    if (!can_be_called(request, function["name"])) continue;
    tools.push_back(signature_of(function));
  }
  return tools;
}

Calls calls_of(const ChatRequest& request, const std::vector<grammar::ToolSignature>& tools) {
  if (request.requires_call) return Calls::kRequired;
  if (tools.empty()) return Calls::kNone;
  if (request.output_schema) return Calls::kMaybe;
  const bool is_restricted = !request.allowed_tools.empty();
  const bool has_strict = std::ranges::any_of(tools, &grammar::ToolSignature::is_strict);
  return is_restricted || has_strict ? Calls::kLazy : Calls::kNone;
}

grammar::AnswerRules rules_of(const ChatRequest& request, const AnswerBeginning& beginning) {
  grammar::AnswerRules rules;
  rules.tools = signatures_of(request);
  rules.calls = calls_of(request, rules.tools);
  if (rules.calls == Calls::kLazy) {
    for (grammar::ToolSignature& tool : rules.tools) tool.is_free = !tool.is_strict;
  }
  if (beginning.start == chat::tools::Start::kInReasoning) {
    rules.reasoning = Reasoning::kOpen;
  } else if (beginning.may_reason) {
    rules.reasoning = Reasoning::kMaybe;
  }
  if (request.output_schema && rules.calls != Calls::kRequired) {
    rules.content_schema = request.output_schema->schema;
    const bool is_strict = request.output_schema->is_strict;
    rules.content_options = {.closed_objects = is_strict, .refuse_unenforced = is_strict};
  }
  return rules;
}

// All that a grammar depends on.
std::string key_of(const grammar::AnswerRules& rules, std::string_view dialect, bool allows_several) {
  std::string key = fmt::format("{} {} {} {} {}", dialect, static_cast<int>(rules.reasoning),
                                static_cast<int>(rules.calls), allows_several, rules.content_options.closed_objects);
  if (rules.content_schema) key += dump_json(*rules.content_schema);
  for (const grammar::ToolSignature& tool : rules.tools) {
    key += fmt::format("\n{} {} {} ", tool.name, tool.is_strict, tool.is_free);
    if (!tool.is_free) key += dump_json(tool.parameters);
  }
  return key;
}

// Whatever a schema is refused for, it is the client's to mend.
Error refusal(const Error& error, const ChatRequest& request) {
  const bool is_of_tools = !request.output_schema || error.message().starts_with("tool ");
  const std::string_view field = is_of_tools ? "tools" : std::string_view(request.output_schema->field);
  return Error(ErrorCode::kInvalidInput, fmt::format("Invalid schema for '{}': {}", field, error.message()))
      .with_field(std::string(field))
      .with_reason("invalid_schema");
}

}  // namespace

Result<engine::Constraint> make_constraint(const ChatRequest& request, const AnswerBeginning& beginning,
                                           grammar::GrammarCache& grammars) {
  const grammar::AnswerRules rules = rules_of(request, beginning);
  if (rules.calls == Calls::kNone && !rules.content_schema) return engine::Constraint{};
  const std::string_view dialect = beginning.dialect.name;
  auto grammar = grammars.get(key_of(rules, dialect, request.parallel_tool_calls), [&] {
    grammar::AnswerSyntax syntax = answer_syntax(dialect);
    syntax.calls.allows_several &= request.parallel_tool_calls;
    return grammar::compile_answer(syntax, rules);
  });
  if (!grammar) return fail(refusal(grammar.error(), request));
  for (const std::string& keyword : (*grammar)->not_enforced()) {
    spdlog::info("event=not_enforced keyword=\"{}\"", keyword);
  }
  const bool has_markup = rules.calls != Calls::kNone || rules.reasoning != Reasoning::kNone;
  return engine::Constraint{.grammar = *std::move(grammar), .allows_control = has_markup};
}

}  // namespace tempo9::server
