#include "server/output_constraint.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "grammar/tool_calls.h"
#include "server/json.h"

namespace tempo9::server {

namespace {

using GrammarResult = Result<std::shared_ptr<const grammar::Grammar>>;

// How a family writes calls (spec tool-calling 8), for those whose arguments are JSON.
struct FamilySyntax {
  std::string_view dialect;
  grammar::CallSyntax syntax;
};

std::optional<grammar::CallSyntax> find_syntax(std::string_view dialect) {
  const std::string name_key = R"({"name": ")";
  const std::string arguments_key = R"(", "arguments": )";
  const grammar::CallSyntax tagged{
      .begin = "<tool_call>\n" + name_key, .arguments_begin = arguments_key, .end = "}\n</tool_call>", .between = "\n"};
  const std::array<FamilySyntax, 5> families{{
      {"hermes-json", tagged},
      {"generic", tagged},
      {"llama3", {.begin = name_key, .arguments_begin = R"(", "parameters": )", .end = "}", .allows_several = false}},
      {"mistral-json",
       {.first = "[TOOL_CALLS][",
        .begin = name_key,
        .arguments_begin = arguments_key,
        .end = "}",
        .between = ", ",
        .last = "]"}},
      {"mistral-v13", {.begin = "[TOOL_CALLS]", .arguments_begin = "[ARGS]"}},
  }};
  for (const FamilySyntax& family : families) {
    if (family.dialect == dialect) return family.syntax;
  }
  return std::nullopt;
}

std::unexpected<Error> unsupported(std::string_view field, std::string_view what, std::string_view dialect) {
  return fail(Error(ErrorCode::kUnsupported,
                    fmt::format("'{}': {} is not supported by this server for models that write in the dialect {}.",
                                field, what, dialect))
                  .with_field(std::string(field))
                  .with_reason("unsupported_parameter"));
}

// Whatever a schema is refused for, it is the client's to mend.
GrammarResult with_field(GrammarResult grammar, std::string_view field) {
  if (grammar) return grammar;
  return fail(
      Error(ErrorCode::kInvalidInput, fmt::format("Invalid schema for '{}': {}", field, grammar.error().message()))
          .with_field(std::string(field))
          .with_reason("invalid_schema"));
}

void log_unenforced(const grammar::Grammar& grammar) {
  for (const std::string& keyword : grammar.not_enforced()) spdlog::info("event=not_enforced keyword=\"{}\"", keyword);
}

GrammarResult compile_schema(const OutputSchema& output, grammar::GrammarCache& grammars) {
  const std::string key = fmt::format("schema {} {}", output.is_strict, dump_json(output.schema));
  return with_field(grammars.get(key,
                                 [&] {
                                   return grammar::Grammar::compile(
                                       output.schema,
                                       {.closed_objects = output.is_strict, .refuse_unenforced = output.is_strict});
                                 }),
                    output.field);
}

// `tool` as a client declares it.
grammar::ToolSignature signature_of(const Json& function) {
  const std::string quoted = dump_json(function["name"]);  // names stand in JSON
  const Json empty = {{"type", "object"}, {"properties", Json::object()}};
  const Json parameters = function.value("parameters", Json());
  return {.name = quoted.substr(1, quoted.size() - 2),
          .parameters = parameters.is_object() ? parameters : empty,
          .is_strict = function.value("strict", Json()) == Json(true)};
}

GrammarResult compile_calls(const ChatRequest& request, const grammar::CallSyntax& syntax,
                            grammar::GrammarCache& grammars) {
  std::vector<grammar::ToolSignature> tools;
  std::string key = fmt::format("calls {} {}", syntax.allows_several, syntax.first);
  for (const Json& tool : request.conversation.tools) {
    const Json function = tool.value("function", Json());
    if (!function.is_object() || !function.value("name", Json()).is_string()) continue;
    if (!request.forced_tool.empty() && function["name"] != Json(request.forced_tool)) continue;
    tools.push_back(signature_of(function));
    key += dump_json(function);
  }
  return with_field(grammars.get(key, [&] { return grammar::compile_tool_calls(tools, syntax); }), "tools");
}

// The text that ends what `opener` begins; empty for forms that have none.
std::string closer_of(std::string_view opener) {
  if (opener == "<think>") return "</think>";
  if (opener == "[THINK]") return "[/THINK]";
  return {};
}

}  // namespace

Result<engine::Constraint> make_constraint(const ChatRequest& request, const chat::tools::Dialect& dialect,
                                           chat::tools::Start start, grammar::GrammarCache& grammars) {
  engine::Constraint constraint;
  if (!request.output_schema && !request.requires_call) return constraint;
  const std::string field = request.requires_call ? "tool_choice" : request.output_schema->field;
  if (!request.requires_call && !request.conversation.tools.empty()) {
    // The schema would hold the content from its first token, so that no tool could be called.
    return unsupported(field, "a schema together with tools", dialect.name);
  }
  if (start == chat::tools::Start::kInReasoning) {
    constraint.begins_after = closer_of(dialect.reasoning_opener);
    if (constraint.begins_after.empty()) return unsupported(field, "constrained output after reasoning", dialect.name);
  }
  if (request.requires_call) {
    auto syntax = find_syntax(dialect.name);
    if (!syntax) return unsupported(field, "a forced tool call", dialect.name);
    syntax->allows_several &= request.parallel_tool_calls;
    if (!constraint.begins_after.empty()) syntax->first.insert(0, "\n\n");
    T9_TRY(calls, compile_calls(request, *syntax, grammars));
    constraint.grammar = std::move(calls);
    constraint.allows_control = true;
  } else {
    // The answer's text is inside a channel there, and the channel is the model's to choose.
    if (dialect.name == "harmony") return unsupported(field, "constrained output", dialect.name);
    T9_TRY(schema, compile_schema(*request.output_schema, grammars));
    constraint.grammar = std::move(schema);
  }
  log_unenforced(*constraint.grammar);
  return constraint;
}

}  // namespace tempo9::server
