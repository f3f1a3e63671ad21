// Between the values of a template and JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "chat/template/context.h"
#include "chat/template/value.h"

namespace tempo9::chat {

// Which variables hold template text; syntax of RenderOptions::trusted_variables.
class TrustedNames {
 public:
  explicit TrustedNames(const std::vector<std::string>& names);

  bool trusts(std::string_view variable) const;
  bool trusts_field(std::string_view variable, std::string_view field) const;

 private:
  std::vector<std::pair<std::string, std::string>> names_;  // variable, field or ""
};

// Everything in it counts as text from outside, except what `trusted` names.
Value variable_from_json(Context& context, std::string_view name, const Json& json, const TrustedNames& trusted);
// The from_json filter. Errors: kInvalidInput when it is not JSON.
Result<Value> parse_json(Context& context, std::string_view text);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // one level of it; without: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Python's json.dumps. Errors: kInvalidInput for what JSON has no form for.
Result<std::string> dump_json(Context& context, const Value& value, const JsonStyle& style);

}  // namespace tempo9::chat
