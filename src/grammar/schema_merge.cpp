#include "grammar/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>

namespace tempo9::grammar {
namespace {

constexpr size_t kMaxAlternatives = 64;

bool is_lower_bound(std::string_view key) {
  return key == "minimum" || key == "exclusiveMinimum" || key == "minLength" || key == "minItems";
}
bool is_upper_bound(std::string_view key) {
  return key == "maximum" || key == "exclusiveMaximum" || key == "maxLength" || key == "maxItems";
}

Json as_array(const Json& value) { return value.is_array() ? value : Json::array({value}); }

bool holds(const Json& array, const Json& value) {
  return std::ranges::any_of(array, [&](const Json& element) { return element == value; });
}

// Integers are numbers.
Json common_types(const Json& a, const Json& b) {
  Json out = Json::array();
  const Json left = as_array(a), right = as_array(b);
  for (const Json& type : left) {
    if (holds(right, type) || (type == "integer" && holds(right, "number"))) out.push_back(type);
  }
  if (holds(left, "number") && holds(right, "integer") && !holds(out, "integer")) out.push_back("integer");
  return out;
}

Json common_elements(const Json& a, const Json& b) {
  Json out = Json::array();
  for (const Json& value : a) {
    if (holds(b, value)) out.push_back(value);
  }
  return out;
}

Json joined(const Json& a, const Json& b) {
  Json out = a;
  for (const Json& value : b) {
    if (!holds(out, value)) out.push_back(value);
  }
  return out;
}

Json both(const Json& a, const Json& b) {
  if (a == b) return a;
  if (a == Json(true)) return b;
  if (b == Json(true)) return a;
  return Json{{"allOf", Json::array({a, b})}};
}

// A property that only one side lists must also satisfy what the other says of additional ones.
Json merged_properties(const Json& a, const Json& b) {
  const auto rest_of = [](const Json& schema) {
    return schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(true);
  };
  const auto listed_in = [](const Json& schema) {
    return schema.contains("properties") ? schema["properties"] : Json::object();
  };
  const Json left = listed_in(a), right = listed_in(b);
  Json out = Json::object();
  for (const auto& [name, schema] : left.items()) {
    out[name] = both(schema, right.contains(name) ? right[name] : rest_of(b));
  }
  for (const auto& [name, schema] : right.items()) {
    if (!left.contains(name)) out[name] = both(schema, rest_of(a));
  }
  return out;
}

Result<Json> merge_alternatives(const Json& a, const Json& b) {
  if (a.size() * b.size() > kMaxAlternatives) {
    return fail(ErrorCode::kUnsupported, fmt::format("more than {} combinations of alternatives", kMaxAlternatives));
  }
  Json out = Json::array();
  for (const Json& left : a) {
    for (const Json& right : b) out.push_back(both(left, right));
  }
  return out;
}

Result<Json> merge_keyword(const std::string& key, const Json& a, const Json& b) {
  if (a == b) return a;
  const bool is_list = key == "required" || key == "allOf" || key == "enum" || key == "anyOf" || key == "oneOf";
  if (is_list && !(a.is_array() && b.is_array())) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: not an array", key));
  }
  if (key == "type") return common_types(a, b);
  if (key == "required" || key == "allOf") return joined(a, b);
  if (key == "enum") return common_elements(a, b);
  if (is_lower_bound(key) && a.is_number() && b.is_number()) return a < b ? b : a;
  if (is_upper_bound(key) && a.is_number() && b.is_number()) return a < b ? a : b;
  if (key == "additionalProperties" || key == "items") return both(a, b);
  if (key == "anyOf" || key == "oneOf") return merge_alternatives(a, b);
  if (key == "title" || key == "description" || key == "default" || key == "examples") return a;
  return fail(ErrorCode::kUnsupported, fmt::format("{}: two that differ cannot be joined", key));
}

}  // namespace

Result<Json> merge_schemas(const Json& a, const Json& b) {
  if (a.is_boolean()) return a.get<bool>() ? b : a;
  if (b.is_boolean()) return b.get<bool>() ? a : b;
  Json out = a;
  for (const auto& [key, value] : b.items()) {
    if (key == "properties" || key == "additionalProperties") continue;
    if (!out.contains(key)) {
      out[key] = value;
      continue;
    }
    T9_TRY(merged, merge_keyword(key, out[key], value));
    out[key] = std::move(merged);
  }
  for (const Json* schema : {&a, &b}) {
    if (schema->contains("properties") && !(*schema)["properties"].is_object()) {
      return fail(ErrorCode::kInvalidInput, "properties: not an object");
    }
  }
  const bool has_properties = a.contains("properties") || b.contains("properties");
  if (has_properties) out["properties"] = merged_properties(a, b);
  if (b.contains("additionalProperties")) {
    out["additionalProperties"] = a.contains("additionalProperties")
                                      ? both(a["additionalProperties"], b["additionalProperties"])
                                      : b["additionalProperties"];
  }
  return out;
}

}  // namespace tempo9::grammar
