// The tools that a request declares.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/message.h"
#include "chat/tools/allowed_types.h"

namespace tempo9::chat::tools {

class Tool {
 public:
  Tool(std::string name, Json parameters) : name_(std::move(name)), parameters_(std::move(parameters)) {}

  const std::string& name() const { return name_; }
  // Nothing when the parameter is not declared. The result points into this tool.
  std::optional<AllowedTypes> find_parameter(std::string_view name) const;
  // The name of the tool's only parameter if that is a plain string; empty otherwise.
  std::string only_string_parameter() const;

 private:
  std::string name_;
  Json parameters_;
};

// Immutable.
class ToolSet {
 public:
  ToolSet() = default;
  // Of OpenAI's form, {"type":"function","function":{"name", "parameters"}}; what has no name is left out.
  explicit ToolSet(const std::vector<Json>& tools);

  bool is_empty() const { return tools_.empty(); }
  // By the exact name.
  const Tool* find(std::string_view name) const;
  // The tool that a model means which wrote `name`: the exact one, else the only one that fits when prefixes, quotes,
  // letter case, the kind of separators and a namespace are disregarded. Null when there is none. Section 7.
  const Tool* resolve(std::string_view name) const;

 private:
  std::vector<Tool> tools_;
};

// What a parameter of `tool` may be; nothing when it is not declared, or the tool is not (null).
std::optional<AllowedTypes> find_parameter(const Tool* tool, std::string_view name);

}  // namespace tempo9::chat::tools
