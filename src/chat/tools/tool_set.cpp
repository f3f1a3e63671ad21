#include "chat/tools/tool_set.h"

#include <algorithm>

#include "chat/template/text.h"
#include "chat/tools/json_strings.h"

namespace tempo9::chat::tools {
namespace {

std::string_view strip_decoration(std::string_view name) {
  const auto is_quote = [](char c) { return c == '"' || c == '\'' || c == '`'; };
  name = trim_json_space(name);
  while (name.size() >= 2 && is_quote(name.front()) && name.back() == name.front()) {
    name = trim_json_space(name.substr(1, name.size() - 2));
  }
  for (const std::string_view prefix : {"functions.", "default_api."}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  if (name.ends_with("()")) name.remove_suffix(2);
  return name;
}

// Several separators in a row are one.
std::string fold_separators(std::string_view name) {
  std::string folded;
  for (const char c : to_lower(name)) {
    const bool separates = c == '-' || c == '.' || c == ' ' || c == '_';
    if (!separates || !folded.ends_with('_')) folded += separates ? '_' : c;
  }
  return folded;
}

// What stands behind the namespaces: "ns.name", "ns:name", "ns/name", "ns__name".
std::string_view last_segment(std::string_view name) {
  const size_t mark = name.find_last_of(".:/");
  if (mark != std::string_view::npos) name.remove_prefix(mark + 1);
  const size_t line = name.rfind("__");
  if (line != std::string_view::npos) name.remove_prefix(line + 2);
  return name;
}

// The only tool for which `fits`; null when there are none or several.
template <class Fits>
const Tool* find_only(const std::vector<Tool>& tools, Fits fits) {
  const Tool* found = nullptr;
  for (const Tool& tool : tools) {
    if (!fits(tool.name())) continue;
    if (found) return nullptr;
    found = &tool;
  }
  return found;
}

}  // namespace

std::optional<AllowedTypes> Tool::find_parameter(std::string_view name) const {
  const Json* schema = tools::find_parameter(parameters_, name);
  if (!schema) return std::nullopt;
  return allowed_types(*schema, parameters_);
}

std::string Tool::only_string_parameter() const {
  const auto properties = parameters_.find("properties");
  if (properties == parameters_.end() || !properties->is_object() || properties->size() != 1) return {};
  const std::string name = properties->begin().key();
  const auto allowed = find_parameter(name);
  return allowed && allowed->is_string_only() ? name : std::string();
}

ToolSet::ToolSet(const std::vector<Json>& tools) {
  for (const Json& tool : tools) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    const Json& function = tool["function"];
    if (!function.contains("name") || !function["name"].is_string()) continue;
    const auto parameters = function.find("parameters");
    const bool has_schema = parameters != function.end() && parameters->is_object();
    tools_.emplace_back(function["name"].get<std::string>(), has_schema ? *parameters : Json::object());
  }
}

const Tool* ToolSet::find(std::string_view name) const {
  const auto it = std::ranges::find(tools_, name, &Tool::name);
  return it == tools_.end() ? nullptr : &*it;
}

const Tool* ToolSet::resolve(std::string_view written) const {
  if (const Tool* exact = find(written)) return exact;
  const std::string_view name = strip_decoration(written);
  if (const Tool* exact = find(name)) return exact;
  const std::string lower = to_lower(name);
  if (const Tool* tool = find_only(tools_, [&](const std::string& n) { return to_lower(n) == lower; })) return tool;
  const std::string folded = fold_separators(name);
  if (const Tool* tool = find_only(tools_, [&](const std::string& n) { return fold_separators(n) == folded; })) {
    return tool;
  }
  // A name without its namespace.
  return find_only(tools_, [&](const std::string& n) { return fold_separators(last_segment(n)) == folded; });
}

std::optional<AllowedTypes> find_parameter(const Tool* tool, std::string_view name) {
  return tool ? tool->find_parameter(name) : std::nullopt;
}

}  // namespace tempo9::chat::tools
