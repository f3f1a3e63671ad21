#include "chat/tools/allowed_types.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "chat/template/text.h"
#include "chat/tools/name_pattern.h"

namespace tempo9::chat::tools {
namespace {

// Schemas visited for one parameter. References can make a small schema a huge tree; beyond this, everything is
// allowed.
constexpr int kMaxVisits = 2000;

constexpr Types kNumberTypes = Types(JsonType::kNumber) | Types(JsonType::kInteger);

const Json* find_key(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

bool has_any_key(const Json& object, std::initializer_list<const char*> keys) {
  return std::ranges::any_of(keys, [&](const char* key) { return object.contains(key); });
}

Types type_of_value(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return JsonType::kNull;
    case Json::value_t::boolean:
      return JsonType::kBoolean;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return JsonType::kInteger;
    case Json::value_t::number_float:
      return kNumberTypes;
    case Json::value_t::array:
      return JsonType::kArray;
    case Json::value_t::object:
      return JsonType::kObject;
    default:
      return JsonType::kString;
  }
}

// Nothing for a name that means any type. Unknown names are strings.
std::optional<Types> type_of_name(const Json& name) {
  if (!name.is_string()) return JsonType::kString;
  const std::string folded = to_lower(name.get_ref<const std::string&>());
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, folded) != names.end();
  };
  if (is({"any"})) return std::nullopt;
  if (is({"number", "float", "double"})) return kNumberTypes;
  if (is({"integer", "int", "long"})) return JsonType::kInteger;
  if (is({"boolean", "bool"})) return JsonType::kBoolean;
  if (is({"object", "dict"})) return JsonType::kObject;
  if (is({"array", "list", "tuple"})) return JsonType::kArray;
  if (is({"null", "none", "nonetype"})) return JsonType::kNull;
  return JsonType::kString;
}

AllowedTypes any_type() { return {.is_any = true, .types = Types::all(), .members = {}}; }
AllowedTypes only(Types types) { return {.is_any = false, .types = types, .members = {}}; }

void append(std::vector<const Json*>& members, const std::vector<const Json*>& more) {
  members.insert(members.end(), more.begin(), more.end());
}

AllowedTypes united(AllowedTypes a, const AllowedTypes& b) {
  append(a.members, b.members);
  if (a.is_any || b.is_any) return {.is_any = true, .types = Types::all(), .members = std::move(a.members)};
  a.types = a.types | b.types;
  return a;
}

// Any is neutral.
AllowedTypes intersected(AllowedTypes a, const AllowedTypes& b) {
  append(a.members, b.members);
  a.types = a.types & b.types;
  a.is_any = a.is_any && b.is_any;
  return a;
}

class Resolver {
 public:
  explicit Resolver(const Json& root) : root_(root) {}

  AllowedTypes resolve(const Json& schema) {
    if (!schema.is_object()) return schema == Json(false) ? only(JsonType::kString) : any_type();
    if (--visits_left_ < 0) return any_type();
    AllowedTypes result = any_type();
    bool is_decided = false;
    const auto narrow = [&](const AllowedTypes& more) {
      result = is_decided ? intersected(std::move(result), more) : more;
      is_decided = true;
    };
    if (const Json* type = find_key(schema, "type")) narrow(of_type(*type));
    if (const Json* reference = find_key(schema, "$ref")) narrow(of_reference(*reference));
    for (const char* key : {"anyOf", "oneOf"}) {
      if (const Json* branches = find_key(schema, key); branches && branches->is_array()) narrow(of_union(*branches));
    }
    if (const Json* parts = find_key(schema, "allOf"); parts && parts->is_array()) {
      for (const Json& part : *parts) narrow(resolve(part));
    }
    if (const Json* value = find_key(schema, "const")) narrow(of_members({value}));
    if (const Json* values = find_key(schema, "enum"); values && values->is_array()) narrow(of_enum(*values));
    if (!is_decided) result = of_keywords(schema);
    if (result.types.is_empty()) result = only(JsonType::kString);
    if (const Json* nullable = find_key(schema, "nullable"); nullable && *nullable == Json(true)) {
      result.types = result.types | JsonType::kNull;
    }
    return result;
  }

 private:
  static AllowedTypes of_type(const Json& type) {
    if (!type.is_array()) {
      const auto types = type_of_name(type);
      return types ? only(*types) : any_type();
    }
    Types types;
    for (const Json& name : type) {
      const auto more = type_of_name(name);
      if (!more) return any_type();
      types = types | *more;
    }
    return only(types);
  }

  AllowedTypes of_reference(const Json& reference) {
    if (!reference.is_string()) return only(JsonType::kString);
    const Json* target = find_reference(root_, reference.get_ref<const std::string&>());
    if (!target) return only(JsonType::kString);
    if (std::ranges::find(path_, target) != path_.end()) return any_type();
    path_.push_back(target);
    AllowedTypes types = resolve(*target);
    path_.pop_back();
    return types;
  }

  AllowedTypes of_union(const Json& branches) {
    if (branches.empty()) return any_type();
    AllowedTypes types = resolve(branches[0]);
    for (size_t i = 1; i < branches.size(); ++i) types = united(std::move(types), resolve(branches[i]));
    return types;
  }

  static AllowedTypes of_members(std::vector<const Json*> members) {
    Types types;
    for (const Json* member : members) types = types | type_of_value(*member);
    return {.is_any = false, .types = types, .members = std::move(members)};
  }

  static AllowedTypes of_enum(const Json& values) {
    std::vector<const Json*> members;
    for (const Json& value : values) members.push_back(&value);
    return of_members(std::move(members));
  }

  // A schema without a type that speaks of one. Only where nothing else decides: JSON Schema applies these keywords to
  // values of their type and lets the others pass.
  static AllowedTypes of_keywords(const Json& schema) {
    if (has_any_key(schema, {"properties", "required", "additionalProperties", "patternProperties"})) {
      return only(JsonType::kObject);
    }
    if (has_any_key(schema, {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})) {
      return only(JsonType::kArray);
    }
    if (has_any_key(schema, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) {
      return only(kNumberTypes);
    }
    if (has_any_key(schema, {"pattern", "minLength", "maxLength", "format"})) return only(JsonType::kString);
    return any_type();
  }

  const Json& root_;
  std::vector<const Json*> path_;  // references being followed
  int visits_left_ = kMaxVisits;
};

std::optional<unsigned> hex_byte(std::string_view digits) {
  unsigned value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (problem != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = text[i] == '%' && i + 3 <= text.size() ? hex_byte(text.substr(i + 1, 2)) : std::nullopt;
    out += byte ? static_cast<char>(*byte) : text[i];
    if (byte) i += 2;
  }
  return out;
}

// "~1" is a slash and "~0" a tilde.
std::string unescape_pointer_part(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    const char next = i + 1 < part.size() ? part[i + 1] : '\0';
    if (part[i] == '~' && (next == '0' || next == '1')) {
      out += next == '0' ? '~' : '/';
      ++i;
    } else {
      out += part[i];
    }
  }
  return out;
}

const Json* find_step(const Json& from, const std::string& step) {
  if (from.is_object()) return find_key(from, step.c_str());
  if (!from.is_array()) return nullptr;
  size_t index = 0;
  const auto [end, problem] = std::from_chars(step.data(), step.data() + step.size(), index);
  const bool is_index = problem == std::errc() && end == step.data() + step.size();
  return is_index && index < from.size() ? &from[index] : nullptr;
}

// In one schema, without looking into its references and parts.
const Json* find_own_parameter(const Json& schema, const std::string& name) {
  if (const Json* properties = find_key(schema, "properties")) {
    if (const Json* parameter = find_key(*properties, name.c_str())) return parameter;
  }
  if (const Json* patterns = find_key(schema, "patternProperties"); patterns && patterns->is_object()) {
    for (const auto& [pattern, parameter] : patterns->items()) {
      if (name_matches(pattern, name)) return &parameter;
    }
  }
  const Json* additional = find_key(schema, "additionalProperties");
  return additional && additional->is_object() ? additional : nullptr;
}

const Json* search_parameter(const Json& root, const Json& schema, const std::string& name, int& visits_left) {
  if (!schema.is_object() || --visits_left < 0) return nullptr;
  if (const Json* found = find_own_parameter(schema, name)) return found;
  if (const Json* reference = find_key(schema, "$ref"); reference && reference->is_string()) {
    const Json* target = find_reference(root, reference->get_ref<const std::string&>());
    const Json* found = target ? search_parameter(root, *target, name, visits_left) : nullptr;
    if (found) return found;
  }
  for (const char* key : {"allOf", "anyOf", "oneOf"}) {
    const Json* parts = find_key(schema, key);
    if (!parts || !parts->is_array()) continue;
    for (const Json& part : *parts) {
      if (const Json* found = search_parameter(root, part, name, visits_left)) return found;
    }
  }
  return nullptr;
}

}  // namespace

AllowedTypes allowed_types(const Json& schema, const Json& root) {
  AllowedTypes result = Resolver(root).resolve(schema);
  std::erase_if(result.members, [&](const Json* member) { return (type_of_value(*member) & result.types).is_empty(); });
  return result;
}

const Json* find_parameter(const Json& root, std::string_view name) {
  int visits_left = 100;  // a chain of references may be a circle
  return search_parameter(root, root, std::string(name), visits_left);
}

const Json* find_reference(const Json& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  const std::string pointer = percent_decoded(reference.substr(1));
  const Json* at = &root;
  if (pointer.empty()) return at;
  if (pointer[0] != '/') return nullptr;
  for (size_t begin = 1; at && begin <= pointer.size();) {
    const size_t end = std::min(pointer.find('/', begin), pointer.size());
    at = find_step(*at, unescape_pointer_part(std::string_view(pointer).substr(begin, end - begin)));
    begin = end + 1;
  }
  return at;
}

}  // namespace tempo9::chat::tools
