#include "grammar/support.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <algorithm>
#include <cmath>

#include "grammar/schema_reference.h"

namespace tempo9::grammar::testing {
namespace {

bool matches(const std::string& pattern, const std::string& text) {
  int error = 0;
  PCRE2_SIZE where = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX, &error, &where, nullptr);
  EXPECT_NE(code, nullptr) << pattern;
  pcre2_match_data* match = pcre2_match_data_create_from_pattern(code, nullptr);
  const int n = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match, nullptr);
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return n > 0;
}

size_t n_characters(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number() && std::trunc(value.get<double>()) == value.get<double>();
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

bool is_valid_string(const Json& schema, const std::string& text) {
  if (schema.contains("minLength") && n_characters(text) < schema["minLength"]) return false;
  if (schema.contains("maxLength") && n_characters(text) > schema["maxLength"]) return false;
  return !schema.contains("pattern") || matches(schema["pattern"], text);
}

bool is_valid_integer(const Json& schema, double value) {
  return !(schema.contains("minimum") && value < schema["minimum"]) &&
         !(schema.contains("maximum") && value > schema["maximum"]) &&
         !(schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) &&
         !(schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]);
}

bool is_valid_array(const Json& schema, const Json& value, const Json& root) {
  if (schema.contains("minItems") && value.size() < schema["minItems"]) return false;
  if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
  const Json fixed = schema.value("prefixItems", Json::array());
  const Json rest = schema.value("items", Json(true));
  for (size_t i = 0; i < value.size(); ++i) {
    if (!is_valid(i < fixed.size() ? fixed[i] : rest, value[i], root)) return false;
  }
  return true;
}

bool is_valid_object(const Json& schema, const Json& value, const Json& root) {
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  const Json properties = schema.value("properties", Json::object());
  const Json rest = schema.value("additionalProperties", Json(true));
  return std::ranges::all_of(value.items(), [&](const auto& item) {
    return is_valid(properties.contains(item.key()) ? properties[item.key()] : rest, item.value(), root);
  });
}

}  // namespace

bool is_valid(const Json& schema, const Json& value, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  const auto holds = [&](const Json& part) { return is_valid(part, value, root); };
  if (schema.contains("$ref") && !holds(**resolve_reference(root, schema["$ref"]))) return false;
  if (schema.contains("allOf") && !std::ranges::all_of(schema["allOf"], holds)) return false;
  for (const char* key : {"anyOf", "oneOf"}) {
    if (schema.contains(key) && !std::ranges::any_of(schema[key], holds)) return false;
  }
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) return false;
  if (schema.contains("type")) {
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    if (std::ranges::none_of(types, [&](const Json& type) { return has_type(value, type); })) return false;
  }
  if (value.is_string()) return is_valid_string(schema, value);
  if (value.is_number_integer()) return is_valid_integer(schema, value.get<double>());
  if (value.is_array()) return is_valid_array(schema, value, root);
  return !value.is_object() || is_valid_object(schema, value, root);
}

std::shared_ptr<const Grammar> compile(std::string_view schema, const CompileOptions& options) {
  auto grammar = Grammar::compile(Json::parse(schema), options);
  if (grammar) return *std::move(grammar);
  ADD_FAILURE() << grammar.error().message();
  return nullptr;
}

std::string refusal(std::string_view schema, const CompileOptions& options) {
  const auto grammar = Grammar::compile(Json::parse(schema), options);
  return grammar ? "accepted" : grammar.error().message();
}

bool allows(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.accept(text) && matcher.can_end();
}

const std::vector<std::string>& token_texts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> out;
    for (int byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"{\"",      "\":",  "\": ",  "\", \"",   "\",\"",  "\"}",      "\"]",        "},",
                             "}}",       "]}",   "[{",    "[]",       "{}",     "\"\"",     ", ",         "\n  ",
                             "    ",     "true", "false", "null",     "12",     "123",      "2024-01-31", "-1",
                             "0.5",      "e5",   "abc",   "hello",    " world", "na",       "name",       "name\"",
                             "\"name\"", "é",    "中文",  "\xE4\xB8", "\xAD",   "\xF0\x9F", "😀",         "\\n",
                             "\\u00",    "\\\"", "\"a",   "a\"",      "id\":",  "x",        "xx",         "xxx",
                             "value",    "tag",  "kind",  "children"}) {
      out.emplace_back(text);
    }
    out.emplace_back();  // as control tokens have
    return out;
  }();
  return texts;
}

const TokenTrie& token_trie() {
  static const TokenTrie trie(static_cast<int64_t>(token_texts().size()),
                              [](int32_t id) -> std::string_view { return token_texts()[static_cast<size_t>(id)]; });
  return trie;
}

}  // namespace tempo9::grammar::testing
