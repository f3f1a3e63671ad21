// Random outputs: whatever is drawn through the masks is valid JSON for the schema.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "grammar/support.h"

namespace tempo9::grammar {
namespace {

using testing::Json;

const char* const kSchemas[] = {
    R"({})",
    R"({"type": "object"})",
    R"({"type": ["string", "null", "boolean"]})",
    R"({"type": "number"})",
    R"({"type": "integer", "minimum": -12, "maximum": 305})",
    R"({"type": "integer", "exclusiveMinimum": 99})",
    R"({"type": "integer", "maximum": -7})",
    R"({"type": "string", "minLength": 2, "maxLength": 5})",
    R"({"type": "string", "maxLength": 10000})",
    R"({"type": "string", "pattern": "^[a-z]{1,3}(-[0-9]+)?$"})",
    R"({"type": "string", "pattern": "\\S", "maxLength": 9})",
    R"({"type": "string", "pattern": "\\.py$", "maxLength": 6})",
    R"json({"type": "string", "pattern": "^a*(bcd|é{2}f|gh)", "maxLength": 4})json",
    R"({"type": "string", "pattern": "^é*[^a-z\"]x|b$"})",
    R"({"type": "string", "format": "date"})",
    R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4})",
    R"({"type": "array", "items": {"type": "array", "items": {"type": "null"}, "maxItems": 1}, "maxItems": 3})",
    R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false})",
    R"({"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 3, "maxItems": 5})",
    R"({"type": "object", "properties": {"name": {"type": "string"}, "id": {"type": "integer"}},
        "required": ["id"], "additionalProperties": false})",
    R"({"type": "object", "properties": {"name": {"type": "integer"}, "na": {"type": "null"}, "né": true},
        "additionalProperties": {"type": "boolean"}})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b", "a"]})",
    R"({"type": "object", "properties": {"x": false, "y": {"const": null}}})",
    R"({"enum": ["value", "valid", "v\"\\\n", 1, 1.5, null, {"a": [1, {}]}, []]})",
    R"({"enum": ["a", 1, true], "type": ["string", "boolean"]})",
    R"({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}, {"const": {"tag": "x"}}]})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "additionalProperties": false})",
    R"({"oneOf": [{"type": "object", "properties": {"kind": {"const": "x"}, "name": {"type": "string"}},
                   "required": ["kind", "name"], "additionalProperties": false},
                  {"type": "object", "properties": {"kind": {"const": "xx"}}, "required": ["kind"],
                   "additionalProperties": false}]})",
    R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}},
                  {"properties": {"a": {"maximum": 5}}, "required": ["a"]}]})",
    R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}}, "required": ["value"],
        "additionalProperties": false}}})",
    R"({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"],
        "additionalProperties": false})",
    R"({"definitions": {"a/b~": {"type": "boolean"}}, "type": "array", "items": {"$ref": "#/definitions/a~1b~0"},
        "maxItems": 2})",
};

class RandomWalk : public ::testing::TestWithParam<const char*> {};

// An allowed token; more often one that may lead to an end than chance would have it.
int32_t draw(const TokenMask& mask, std::mt19937& random) {
  std::vector<int32_t> allowed, closing;
  for (int32_t id = 0; id < testing::token_trie().n_tokens(); ++id) {
    if (!mask.has(id)) continue;
    allowed.push_back(id);
    const char first = testing::token_texts()[static_cast<size_t>(id)][0];
    if (std::string_view("\"}]").find(first) != std::string_view::npos) closing.push_back(id);
  }
  if (allowed.empty()) return -1;
  const std::vector<int32_t>& from = !closing.empty() && random() % 3 == 0 ? closing : allowed;
  return from[random() % from.size()];
}

// Empty when the output has not come to an end.
std::string walk(const std::shared_ptr<const Grammar>& grammar, std::mt19937& random) {
  Matcher matcher(grammar);
  TokenMask mask(testing::token_trie().n_tokens());
  std::string text;
  for (int step = 0; step < 400; ++step) {
    if (matcher.can_end() && (matcher.must_end() || random() % 4 == 0)) return text;
    matcher.allowed_tokens(testing::token_trie(), mask);
    const int32_t id = draw(mask, random);
    EXPECT_GE(id, 0) << "a dead end behind " << text;
    if (id < 0) return "";
    const std::string& token = testing::token_texts()[static_cast<size_t>(id)];
    EXPECT_TRUE(matcher.accept(token)) << text << " + " << token;
    text += token;
  }
  return "";
}

TEST_P(RandomWalk, GivesValidJson) {
  const auto grammar = testing::compile(GetParam());
  ASSERT_NE(grammar, nullptr);
  const Json schema = Json::parse(GetParam());
  std::mt19937 random(1);
  int n_whole = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string text = walk(grammar, random);
    if (text.empty()) continue;
    ++n_whole;
    const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(value.is_discarded()) << text;
    ASSERT_TRUE(testing::is_valid(schema, value, schema)) << text;
  }
  EXPECT_GE(n_whole, 3);
}

TEST_P(RandomWalk, MasksEqualTryingEachToken) {
  const auto grammar = testing::compile(GetParam());
  ASSERT_NE(grammar, nullptr);
  std::mt19937 random(2);
  TokenMask mask(testing::token_trie().n_tokens());
  for (int i = 0; i < 6; ++i) {
    Matcher matcher(grammar);
    for (int step = 0; step < 25; ++step) {
      matcher.allowed_tokens(testing::token_trie(), mask);
      for (int32_t id = 0; id < testing::token_trie().n_tokens(); ++id) {
        const std::string& token = testing::token_texts()[static_cast<size_t>(id)];
        Matcher fork = matcher;
        ASSERT_EQ(mask.has(id), !token.empty() && fork.accept(token)) << token;
      }
      const int32_t id = draw(mask, random);
      if (id < 0) break;
      ASSERT_TRUE(matcher.accept(testing::token_texts()[static_cast<size_t>(id)]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomWalk, ::testing::ValuesIn(kSchemas));

}  // namespace
}  // namespace tempo9::grammar
