#include "chat/tools/typing.h"

#include <algorithm>
#include <optional>

#include "chat/json_text.h"
#include "chat/template/text.h"
#include "chat/tools/json_strings.h"
#include "chat/tools/number_text.h"
#include "chat/tools/python_literal.h"

namespace tempo9::chat::tools {
namespace {

// How liberally a text is read: kExact where it could also be meant as a string.
enum class Spelling { kLenient, kExact };

// Of the tags around a value one newline on either side is theirs.
std::string_view without_tag_newlines(std::string_view raw) {
  if (raw.starts_with("\r\n")) {
    raw.remove_prefix(2);
  } else if (raw.starts_with('\n')) {
    raw.remove_prefix(1);
  }
  if (raw.ends_with("\r\n")) {
    raw.remove_suffix(2);
  } else if (raw.ends_with('\n')) {
    raw.remove_suffix(1);
  }
  return raw;
}

std::optional<std::string> as_null(std::string_view text, Spelling spelling) {
  const bool is_lenient = spelling == Spelling::kLenient;
  const bool is_null = text == "null" || text == "None" || (is_lenient && (text == "NULL" || text == "Null"));
  return is_null ? std::optional<std::string>("null") : std::nullopt;
}

std::optional<std::string> as_boolean(std::string_view text, Spelling spelling) {
  const std::string folded = to_lower(text);
  if (folded != "true" && folded != "false") return std::nullopt;
  const bool is_exact = text == folded || text == "True" || text == "False";
  return is_exact || spelling == Spelling::kLenient ? std::optional(folded) : std::nullopt;
}

NumberSyntax syntax_of(Spelling spelling) {
  return spelling == Spelling::kLenient ? NumberSyntax::kLenient : NumberSyntax::kJson;
}

std::optional<std::string> as_integer(std::string_view text, Spelling spelling) {
  const auto number = parse_decimal(text, syntax_of(spelling));
  if (!number || (spelling == Spelling::kExact && !number->is_integer_form)) return std::nullopt;
  return integral_number(*number);
}

std::optional<std::string> as_number(std::string_view text, Spelling spelling) {
  const auto number = parse_decimal(text, syntax_of(spelling));
  return number ? canonical_number(*number) : std::nullopt;
}

bool is_container(std::string_view json, JsonType type) {
  return json.starts_with(type == JsonType::kArray ? '[' : '{');
}

bool is_json(std::string_view text) { return Json::accept(text); }

// The text inside a code fence: a line of ``` and an info word, the text, a closing ```.
std::string_view without_fence(std::string_view text) {
  constexpr std::string_view kFence = "```";
  if (!text.starts_with(kFence) || !text.ends_with(kFence) || text.size() < 2 * kFence.size()) return text;
  const size_t line_end = text.find('\n');
  if (line_end == std::string_view::npos) return text;
  const std::string_view info = trim_json_space(text.substr(kFence.size(), line_end - kFence.size()));
  if (info.find_first_of(" \t`") != std::string_view::npos) return text;
  text.remove_suffix(kFence.size());
  return line_end < text.size() ? trim_json_space(text.substr(line_end)) : text;
}

std::optional<std::string> as_container(std::string_view text, JsonType type, Spelling spelling) {
  if (is_container(text, type) && is_json(text)) return std::string(text);
  if (spelling == Spelling::kExact) return std::nullopt;
  const std::string_view inner = without_fence(text);
  if (is_container(inner, type)) {
    std::string repaired = escape_controls_in_strings(inner);
    if (is_json(repaired)) return repaired;
  }
  auto literal = python_literal_to_json(inner);
  return literal && is_container(*literal, type) ? std::move(literal) : std::nullopt;
}

std::optional<std::string> convert(std::string_view text, JsonType type, Spelling spelling) {
  switch (type) {
    case JsonType::kNull:
      return as_null(text, spelling);
    case JsonType::kBoolean:
      return as_boolean(text, spelling);
    case JsonType::kInteger:
      return as_integer(text, spelling);
    case JsonType::kNumber:
      return as_number(text, spelling);
    case JsonType::kArray:
    case JsonType::kObject:
      return as_container(text, type, spelling);
    case JsonType::kString:
      break;
  }
  return std::nullopt;
}

constexpr JsonType kTried[] = {JsonType::kNull,   JsonType::kBoolean, JsonType::kInteger,
                               JsonType::kNumber, JsonType::kArray,   JsonType::kObject};

// The texts that `text` can be read as, in the order of trial.
std::vector<std::string> conversions(std::string_view text, const AllowedTypes& allowed) {
  const Spelling spelling = allowed.has(JsonType::kString) ? Spelling::kExact : Spelling::kLenient;
  std::vector<std::string> found;
  for (const JsonType type : kTried) {
    const bool is_scalar = type != JsonType::kArray && type != JsonType::kObject;
    if (!allowed.has(type) || (allowed.is_any && is_scalar)) continue;
    if (auto json = convert(text, type, spelling)) found.push_back(*std::move(json));
  }
  return found;
}

// Equal in the sense of JSON: objects without regard to the order of their keys, numbers by value.
bool equals_member(const std::string& json, const Json& member) {
  if (member.is_number()) return equal_numbers(json, member.dump());
  const auto value = parse_json_text(json);
  return value && nlohmann::json(*value) == nlohmann::json(member);
}

// As the schema writes it; numbers in their canonical digits.
std::string member_text(const Json& member) {
  const std::string text = member.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (!member.is_number()) return text;
  const auto number = parse_decimal(text, NumberSyntax::kJson);
  return number ? canonical_number(*number).value_or(text) : text;
}

// The member that is the string `value`.
std::optional<std::string> find_string_member(std::string_view value, const AllowedTypes& allowed) {
  const auto is_value = [&](const Json* m) { return m->is_string() && m->get_ref<const std::string&>() == value; };
  if (std::ranges::none_of(allowed.members, is_value)) return std::nullopt;
  return quote_json(value);
}

std::optional<std::string> find_string_member(std::string_view value, std::string_view trimmed,
                                              const AllowedTypes& allowed) {
  if (auto member = find_string_member(value, allowed)) return member;
  if (auto member = find_string_member(trimmed, allowed)) return member;
  const auto inner = decode_json_string(trimmed);
  return inner ? find_string_member(*inner, allowed) : std::nullopt;
}

std::optional<std::string> find_typed_member(const std::vector<std::string>& candidates, const AllowedTypes& allowed) {
  for (const Json* member : allowed.members) {
    if (member->is_string()) continue;
    const auto is_equal = [&](const std::string& candidate) { return equals_member(candidate, *member); };
    if (std::ranges::any_of(candidates, is_equal)) return member_text(*member);
  }
  return std::nullopt;
}

// Steps 6 and 7.
std::optional<std::string> convert_trimmed(std::string_view text, const AllowedTypes& allowed) {
  std::vector<std::string> candidates = conversions(text, allowed);
  if (candidates.empty()) return std::nullopt;
  if (auto member = find_typed_member(candidates, allowed)) return member;
  return std::move(candidates.front());
}

// Steps 4 to 8; nothing when the value stays a string.
std::optional<std::string> convert_text(std::string_view value, const AllowedTypes& allowed) {
  const std::string_view text = trim_json_space(value);
  if (auto member = find_string_member(value, text, allowed)) return member;
  if (allowed.is_string_only()) return std::nullopt;
  if (auto json = convert_trimmed(text, allowed)) return json;
  if (allowed.has(JsonType::kString)) return std::nullopt;
  const auto inner = decode_json_string(text);
  return inner ? convert_trimmed(trim_json_space(*inner), allowed) : std::nullopt;
}

}  // namespace

std::string type_raw_text(std::string_view raw, const AllowedTypes* allowed) {
  const std::string_view value = without_tag_newlines(raw);
  auto converted = allowed ? convert_text(value, *allowed) : std::nullopt;
  return converted ? *std::move(converted) : quote_json(value);
}

bool retypes_strings(const AllowedTypes* allowed) { return allowed && !allowed->has(JsonType::kString); }

bool retypes_numbers(const AllowedTypes* allowed) {
  return allowed && !allowed->is_any && allowed->has(JsonType::kInteger);
}

std::string type_json_value(std::string_view json, const AllowedTypes* allowed) {
  if (json.starts_with('"')) {
    const auto text = retypes_strings(allowed) ? decode_json_string(json) : std::nullopt;
    auto converted = text ? convert_text(*text, *allowed) : std::nullopt;
    return converted ? *std::move(converted) : std::string(json);
  }
  const auto number = retypes_numbers(allowed) ? parse_decimal(json, NumberSyntax::kJson) : std::nullopt;
  if (!number || number->is_integer_form) return std::string(json);
  return integral_number(*number).value_or(std::string(json));
}

}  // namespace tempo9::chat::tools
