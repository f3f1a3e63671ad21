#include "server/dialects/openai_responses_tools.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "chat/tool_messages.h"

namespace tempo9::server {

namespace {

// OpenAI's limit for the name of a function.
constexpr size_t kMaxNameBytes = 64;

// FNV-1a (draft-eastlake-fnv): a name always gets the same short form, so that prompts stay the same.
uint32_t hash_of(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

Json function_of(FieldReader& tool) {
  Json function = {{"name", tool.require_string("name")},
                   {"description", tool.find_string("description").value_or("")}};
  if (const Json* parameters = tool.find_object("parameters")) function["parameters"] = *parameters;
  if (tool.find_bool("strict").value_or(false)) function["strict"] = true;
  return function;
}

// A grammar is shown, and not held to.
std::string custom_description(FieldReader& tool) {
  std::string description = tool.find_string("description").value_or("");
  FieldReader format = tool.nested("format");
  if (format.find_string("type") != "grammar") return description;
  return fmt::format("{}\n\nThe input is text of this grammar ({}):\n{}", description,
                     format.find_string("syntax").value_or("lark"), format.find_string("definition").value_or(""));
}

Json custom_function(FieldReader& tool) {
  return {
      {"name", tool.require_string("name")},
      {"description", custom_description(tool)},
      {"parameters", {{"type", "object"}, {"properties", {{"input", {{"type", "string"}}}}}, {"required", {"input"}}}}};
}

Json local_shell_function() {
  return {{"name", "local_shell"},
          {"description", "Runs a command on the user's machine and returns its output."},
          {"parameters",
           {{"type", "object"},
            {"properties",
             {{"command",
               {{"type", "array"}, {"items", {{"type", "string"}}}, {"description", "The program and its arguments."}}},
              {"workdir", {{"type", "string"}, {"description", "The folder to run in."}}},
              {"timeout_ms", {{"type", "integer"}, {"description", "Milliseconds after which it is stopped."}}}}},
            {"required", {"command"}}}}};
}

}  // namespace

std::string flat_tool_name(std::string_view name_space, std::string_view name) {
  if (name_space.empty()) return std::string(name);
  std::string flat = fmt::format("{}__{}", name_space, name);
  if (flat.size() <= kMaxNameBytes) return flat;
  const std::string hash = fmt::format("_{:08x}", hash_of(flat));
  return flat.substr(0, kMaxNameBytes - hash.size()) + hash;
}

void ResponsesTools::read(FieldReader& fields, std::string_view name) {
  const Json* list = fields.find_array(name);
  for (size_t i = 0; list && i < list->size(); ++i) {
    FieldReader tool = fields.element(name, i);
    read_tool(tool, "");
  }
}

const ResponsesTool* ResponsesTools::find(std::string_view flat_name) const {
  const auto it = std::ranges::find(tools_, flat_name, &ResponsesTool::flat_name);
  return it == tools_.end() ? nullptr : &*it;
}

void ResponsesTools::read_tool(FieldReader& tool, const std::string& name_space) {
  using Kind = ResponsesTool::Kind;
  const std::string type = tool.require_string("type");
  if (type == "function") {
    add(Kind::kFunction, name_space, function_of(tool));
  } else if (type == "custom") {
    add(Kind::kCustom, name_space, custom_function(tool));
  } else if (type == "local_shell") {
    add(Kind::kLocalShell, "", local_shell_function());
  } else if (type == "namespace" && name_space.empty()) {
    read_namespace(tool);
  } else if (!type.empty()) {
    spdlog::info("event=tool_not_offered type=\"{}\"", type);
  }
}

void ResponsesTools::read_namespace(FieldReader& tool) {
  const std::string name = tool.require_string("name");
  const Json* list = tool.find_array("tools");
  for (size_t i = 0; list && i < list->size(); ++i) {
    FieldReader member = tool.element("tools", i);
    read_tool(member, name);
  }
}

void ResponsesTools::add(ResponsesTool::Kind kind, const std::string& name_space, Json function) {
  ResponsesTool tool{.kind = kind, .name = function["name"], .name_space = name_space, .flat_name = {}};
  tool.flat_name = flat_tool_name(tool.name_space, tool.name);
  if (find(tool.flat_name)) return;
  function["name"] = tool.flat_name;
  offered_.push_back(chat::function_tool(std::move(function)));
  tools_.push_back(std::move(tool));
}

}  // namespace tempo9::server
