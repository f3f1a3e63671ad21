#include "grammar/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/utf8.h"
#include "grammar/argument_notations.h"
#include "grammar/notation.h"
#include "grammar/pattern.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_reference.h"

namespace tempo9::grammar {
namespace {

using Names = std::set<std::string, std::less<>>;

constexpr int kMaxNesting = 100;
// References with keywords beside them are written out each time, so a small schema can ask for much.
constexpr int kMaxSchemas = 50'000;

// Keywords by the type of value that they speak of; the first group, of all.
const Names kOfAll = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};
const Names kOfObjects = {"properties", "required", "additionalProperties"};
const Names kOfArrays = {"items", "prefixItems", "additionalItems", "minItems", "maxItems"};
const Names kOfStrings = {"minLength", "maxLength", "pattern", "format"};
const Names kOfNumbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
// Say nothing about values.
const Names kAnnotations = {
    "$schema",     "$id",      "$anchor",          "$comment",       "$defs",      "definitions", "title",
    "description", "default",  "examples",         "example",        "deprecated", "readOnly",    "writeOnly",
    "strict",      "nullable", "contentMediaType", "contentEncoding"};

struct Format {
  std::string_view name;
  const char* pattern;
};
// Days that a month does not have are not ruled out.
constexpr std::array kFormats = {
    Format{"date", R"(^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$)"},
    Format{"time", R"(^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    Format{
        "date-time",
        R"(^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    Format{"uuid", R"(^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$)"},
};

bool says_any_of(const Json& schema, const Names& names) {
  return std::ranges::any_of(schema.items(), [&](const auto& item) { return names.contains(item.key()); });
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
}

}  // namespace

class SchemaCompiler::Implementation {
 public:
  Implementation(AutomatonBuilder& builder, std::vector<std::string> excluded_in_content)
      : builder_(builder),
        json_(builder),
        content_json_(builder, std::move(excluded_in_content)),
        json_in_xml_(builder, {"</parameter>", "</function>"}),
        xml_(builder, json_in_xml_),
        gemma_(builder) {}

  Result<NodeId> add_schema(const Json& schema, const CompileOptions& options, const std::string& context,
                            Written written, NodeId from) {
    root_ = &schema;
    options_ = options;
    context_ = context;
    pending_.clear();  // of a schema that could not be compiled
    place_ = place_of(written);
    T9_TRY(end, value(schema, from, "#", 0));
    // Definitions are compiled one by one, so that recursion in the schema is none here.
    while (!pending_.empty() && !builder_.is_full()) {
      const Pending next = pending_.front();
      pending_.pop_front();
      place_ = next.place;
      T9_TRY(definition_end, value(*next.schema, builder_.start(next.rule), next.pointer, 0));
      builder_.add_return(definition_end);
    }
    return end;
  }

  NodeId add_any_object(Written written, NodeId from) {
    if (written == Written::kXmlParameters) return any_parameters(from);
    return place_of(written).notation->any_object(from);
  }

  JsonNotation& json() { return json_; }
  std::vector<std::string> take_notes() { return std::exchange(not_enforced_, {}); }

 private:
  // How the value that is being added is written.
  struct Place {
    Notation* notation;
    bool is_parameters;  // an object as a list of parameters, in which the notation holds; nothing else can stand there

    auto operator<=>(const Place&) const = default;
  };
  struct Pending {
    const Json* schema;
    RuleId rule;
    std::string pointer;
    Place place;
  };
  // Writes differently while it lives.
  class Inside {
   public:
    Inside(Implementation& self, Place place) : self_(self), before_(std::exchange(self.place_, place)) {}
    ~Inside() { self_.place_ = before_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Implementation& self_;
    const Place before_;
  };

  Place place_of(Written written) {
    switch (written) {
      case Written::kJson:
        return {&json_, false};
      case Written::kJsonContent:
        return {&content_json_, false};
      case Written::kXmlParameters:
        return {&xml_, true};
      case Written::kGemma:
        return {&gemma_, false};
    }
    return {&json_, false};
  }
  Notation& notation() { return *place_.notation; }
  // In a value of an array or object.
  Place nested() { return {&notation().nested(), false}; }

  std::unexpected<Error> error(ErrorCode code, std::string_view path, std::string_view what) const {
    Error error(code, fmt::format("schema {}: {}", sanitize_utf8(path), what));
    return fail(context_.empty() ? std::move(error) : std::move(error).context(context_));
  }

  Result<void> note_unenforced(std::string_view path, std::string_view what) {
    if (options_.refuse_unenforced)
      return error(ErrorCode::kUnsupported, path, fmt::format("{} is not supported", what));
    std::string note =
        fmt::format("{}{}{}: {}", context_, context_.empty() ? "" : " ", sanitize_utf8(path), sanitize_utf8(what));
    if (std::ranges::find(not_enforced_, note) == not_enforced_.end()) not_enforced_.push_back(std::move(note));
    return {};
  }

  Result<NodeId> value(const Json& schema, NodeId from, const std::string& path, int depth) {
    if (depth > kMaxNesting)
      return error(ErrorCode::kOutOfCapacity, path, fmt::format("nested deeper than {}", kMaxNesting));
    if (++n_schemas_ > kMaxSchemas) {
      return error(ErrorCode::kOutOfCapacity, path, fmt::format("more than {} schemas, written out", kMaxSchemas));
    }
    if (builder_.is_full()) return from;  // build() refuses the whole
    if (schema.is_boolean()) return schema.get<bool>() ? any_value(from) : builder_.add_node();
    if (!schema.is_object()) return error(ErrorCode::kInvalidInput, path, "not an object or a boolean");
    if (schema.contains("$ref")) return reference(schema, from, path, depth);
    if (schema.contains("allOf")) return conjunction(schema, from, path, depth);
    for (const char* key : {"anyOf", "oneOf"}) {
      if (schema.contains(key)) return alternatives(schema, key, from, path, depth);
    }
    T9_TRY_VOID(note_unknown_keywords(schema, path));
    if (schema.contains("enum") && !schema["enum"].is_array()) {
      return error(ErrorCode::kInvalidInput, path + "/enum", "not an array");
    }
    if (schema.contains("const")) {
      const Json& constant = schema["const"];
      const bool is_listed =
          !schema.contains("enum") || std::ranges::find(schema["enum"], constant) != schema["enum"].end();
      return constants(schema, is_listed ? Json::array({constant}) : Json::array(), from, path);
    }
    if (schema.contains("enum")) return constants(schema, schema["enum"], from, path);
    return typed(schema, from, path, depth);
  }

  Result<void> note_unknown_keywords(const Json& schema, const std::string& path) {
    for (const auto& [key, ignored] : schema.items()) {
      bool is_known = key.starts_with("x-");
      for (const Names* names : {&kOfAll, &kOfObjects, &kOfArrays, &kOfStrings, &kOfNumbers, &kAnnotations}) {
        is_known |= names->contains(key);
      }
      if (!is_known) T9_TRY_VOID(note_unenforced(path, key));
    }
    return {};
  }

  // --- references, conjunctions, alternatives

  Result<const Json*> resolve(const Json& ref, const std::string& path) const {
    auto target = resolve_reference(*root_, ref);
    if (!target) return error(target.error().code(), path + "/$ref", target.error().message());
    return target;
  }

  // Each place that is referred to is one rule, however often that happens and from inside itself, too.
  Result<NodeId> reference(const Json& schema, NodeId from, const std::string& path, int depth) {
    T9_TRY(target, resolve(schema["$ref"], path));
    Json others = schema;
    others.erase("$ref");
    if (says_anything(others)) {
      T9_TRY(merged, merge(*target, others, path));
      return value(merged, from, path, depth + 1);
    }
    const auto [found, is_new] = rules_.try_emplace({target, place_}, 0);
    if (is_new) {
      found->second = builder_.add_rule();
      pending_.push_back({target, found->second, schema["$ref"].get<std::string>(), place_});
    }
    return call(found->second, from);
  }

  static bool says_anything(const Json& schema) {
    return std::ranges::any_of(schema.items(), [](const auto& item) { return !kAnnotations.contains(item.key()); });
  }

  Result<Json> merge(const Json& a, const Json& b, const std::string& path) const {
    for (const Json* part : {&a, &b}) {
      if (!part->is_object() && !part->is_boolean()) {
        return error(ErrorCode::kInvalidInput, path, "a part is not an object or a boolean");
      }
    }
    if (a.is_object() && b.is_object() && a.contains("$ref") && b.contains("$ref")) {
      T9_TRY(target, resolve(b["$ref"], path));
      Json rest = b;
      rest.erase("$ref");
      T9_TRY(left, merge_parts(a, rest, path));
      return merge_parts(left, Json{{"allOf", Json::array({*target})}}, path);
    }
    return merge_parts(a, b, path);
  }
  Result<Json> merge_parts(const Json& a, const Json& b, const std::string& path) const {
    auto merged = merge_schemas(a, b);
    if (!merged) return error(merged.error().code(), path, merged.error().message());
    return merged;
  }

  Result<NodeId> conjunction(const Json& schema, NodeId from, const std::string& path, int depth) {
    if (!schema["allOf"].is_array()) return error(ErrorCode::kInvalidInput, path + "/allOf", "not an array");
    Json merged = schema;
    merged.erase("allOf");
    for (const Json& part : schema["allOf"]) {
      T9_TRY(next, merge(merged, part, path + "/allOf"));
      merged = std::move(next);
    }
    return value(merged, from, path, depth + 1);
  }

  Result<NodeId> alternatives(const Json& schema, const char* key, NodeId from, const std::string& path, int depth) {
    const Json& parts = schema[key];
    const std::string parts_path = fmt::format("{}/{}", path, key);
    if (!parts.is_array()) return error(ErrorCode::kInvalidInput, parts_path, "not an array");
    Json common = schema;
    common.erase(key);
    const bool is_exclusive = std::string_view(key) == "oneOf" && parts.size() > 1;
    if (is_exclusive && !are_distinct(parts)) {
      T9_TRY_VOID(note_unenforced(path, "oneOf (that only one alternative matches)"));
    }
    const NodeId to = builder_.add_node();
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string part_path = fmt::format("{}/{}", parts_path, i);
      Json merged = parts[i];
      if (says_anything(common)) {
        T9_TRY(both, merge(common, parts[i], part_path));
        merged = std::move(both);
      }
      T9_TRY(end, value(merged, from, part_path, depth + 1));
      builder_.add_free(end, to);
    }
    return to;
  }

  // No value matches two of them, as their types or constants show.
  static bool are_distinct(const Json& parts) {
    std::set<std::string> seen;
    for (const Json& part : parts) {
      if (!part.is_object()) return false;
      if (part.contains("const")) {
        if (!seen.insert("=" + Notation::text_of(part["const"])).second) return false;
      } else if (part.contains("type") && part["type"].is_string() && part["type"] != "integer") {
        if (!seen.insert(part["type"].get<std::string>()).second) return false;
      } else {
        return false;
      }
    }
    const bool all_const = std::ranges::all_of(seen, [](const std::string& text) { return text.starts_with("="); });
    const bool no_const = std::ranges::none_of(seen, [](const std::string& text) { return text.starts_with("="); });
    return all_const || no_const;
  }

  // --- values of given types

  Result<NodeId> constants(const Json& schema, const Json& values, NodeId from, const std::string& path) {
    T9_TRY(types, types_of(schema, path));
    if (place_.is_parameters) return builder_.add_node();
    // Tools of one set often share a list: it is written once.
    const std::string key = Notation::text_of(schema.value("type", Json())) + Notation::text_of(values);
    const auto [found, is_new] = constants_.try_emplace({key, place_}, 0);
    if (is_new) {
      found->second = builder_.add_rule();
      builder_.add_return(add_constants(schema, types, values, builder_.start(found->second)));
    }
    return call(found->second, from);
  }

  NodeId add_constants(const Json& schema, const std::vector<std::string>& types, const Json& values, NodeId from) {
    const NodeId to = builder_.add_node();
    std::vector<std::string> scalars;
    for (const Json& constant : values) {
      const bool fits = std::ranges::any_of(types, [&](std::string_view type) { return has_type(constant, type); });
      if (schema.contains("type") && !fits) continue;
      if (constant.is_structured()) {
        const NodeId begin = builder_.add_node();
        builder_.add_free(from, begin);
        builder_.add_free(notation().nested().constant(begin, constant), to);
      } else {
        scalars.push_back(notation().scalar_text(constant));
      }
    }
    builder_.add_free(notation().one_of(from, scalars), to);
    return notation().end_value(to);
  }

  // Without `type`, those that the other keywords speak of; all, where there are none.
  Result<std::vector<std::string>> types_of(const Json& schema, const std::string& path) const {
    static const Names kTypes = {"object", "array", "string", "number", "integer", "boolean", "null"};
    std::vector<std::string> types;
    if (schema.contains("type")) {
      const Json& stored = schema["type"];
      for (const Json& type : stored.is_array() ? stored : Json::array({stored})) {
        if (!type.is_string() || !kTypes.contains(type.get<std::string>())) {
          return error(ErrorCode::kInvalidInput, path + "/type", fmt::format("{} is no type", Notation::text_of(type)));
        }
        types.push_back(type.get<std::string>());
      }
      return types;
    }
    if (says_any_of(schema, kOfObjects)) types.push_back("object");
    if (says_any_of(schema, kOfArrays)) types.push_back("array");
    if (says_any_of(schema, kOfStrings)) types.push_back("string");
    if (says_any_of(schema, kOfNumbers)) types.push_back("number");
    return types;
  }

  Result<NodeId> typed(const Json& schema, NodeId from, const std::string& path, int depth) {
    T9_TRY(types, types_of(schema, path));
    if (types.empty()) return schema.contains("type") ? builder_.add_node() : any_value(from);
    const NodeId to = builder_.add_node();
    for (const std::string& type : types) {
      const NodeId begin = builder_.add_node();
      builder_.add_free(from, begin);
      T9_TRY(end, of_type(type, schema, begin, path, depth));
      builder_.add_free(end, to);
    }
    return to;
  }

  Result<NodeId> of_type(const std::string& type, const Json& schema, NodeId from, const std::string& path, int depth) {
    if (place_.is_parameters) {
      return type == "object" ? parameters(schema, from, path, depth) : Result<NodeId>(builder_.add_node());
    }
    if (type == "string") return string(schema, from, path);
    T9_TRY(end, of_other_type(type, schema, from, path, depth));
    return notation().end_value(end);
  }

  Result<NodeId> of_other_type(const std::string& type, const Json& schema, NodeId from, const std::string& path,
                               int depth) {
    if (type == "null") return builder_.add_literal(from, "null");
    if (type == "boolean") return notation().one_of(from, {"true", "false"});
    if (type == "array" || type == "object") {
      const Inside inside(*this, nested());
      return type == "array" ? array(schema, from, path, depth) : object(schema, from, path, depth);
    }
    return number(schema, type == "integer", from, path);
  }

  NodeId any_value(NodeId from) { return place_.is_parameters ? any_parameters(from) : notation().any_value(from); }

  NodeId call(RuleId rule, NodeId from) {
    const NodeId to = builder_.add_node();
    builder_.add_call(from, rule, to);
    return to;
  }

  // --- strings

  Result<NodeId> string(const Json& schema, NodeId from, const std::string& path) {
    T9_TRY(limits, read_limits(schema, "minLength", "maxLength", path));
    T9_TRY(pattern, find_pattern(schema, path));
    if (!pattern) return notation().string(from, limits);
    const auto known = patterns_.find({*pattern, limits.min, limits.max, place_});
    if (known != patterns_.end()) return call(known->second, from);
    // In a rule of its own: the counter is per rule.
    const RuleId rule = builder_.add_rule();
    const NodeId begin = notation().open_string(builder_.start(rule));
    const auto behind =
        add_pattern(builder_, notation(), begin, *pattern, limits.any() ? Counting::take(limits) : Counting{});
    if (!behind) {
      if (behind.error().code() == ErrorCode::kInvalidInput) {
        return error(ErrorCode::kInvalidInput, path + "/pattern", behind.error().message());
      }
      T9_TRY_VOID(note_unenforced(path, fmt::format("pattern ({})", behind.error().message())));
      return notation().string(from, limits);
    }
    builder_.add_return(notation().close_string(*behind, Counting::enough(limits)));
    patterns_.emplace(std::tuple(*pattern, limits.min, limits.max, place_), rule);
    return call(rule, from);
  }

  // Of `pattern` and `format` the first that there is.
  Result<std::optional<std::string>> find_pattern(const Json& schema, const std::string& path) {
    std::optional<std::string> of_format;
    if (schema.contains("format")) {
      const Json& name = schema["format"];
      const auto* found = std::ranges::find_if(kFormats, [&](const Format& f) { return name == Json(f.name); });
      const bool is_used = found != kFormats.end() && !schema.contains("pattern");
      if (!is_used) T9_TRY_VOID(note_unenforced(path, fmt::format("format {}", Notation::text_of(name))));
      if (is_used) of_format = found->pattern;
    }
    if (!schema.contains("pattern")) return of_format;
    if (!schema["pattern"].is_string()) return error(ErrorCode::kInvalidInput, path + "/pattern", "not a string");
    return std::optional(schema["pattern"].get<std::string>());
  }

  // Bounds above 2^32 are none.
  Result<Limits> read_limits(const Json& schema, const char* min_key, const char* max_key,
                             const std::string& path) const {
    Limits limits;
    for (const char* key : {min_key, max_key}) {
      if (!schema.contains(key)) continue;
      const Json& stored = schema[key];
      const double bound = stored.is_number() ? stored.get<double>() : -1;
      if (bound < 0 || std::trunc(bound) != bound) {
        return error(ErrorCode::kInvalidInput, fmt::format("{}/{}", path, key), "not a count");
      }
      (key == min_key ? limits.min : limits.max) =
          bound < Limits::kUnlimited ? static_cast<uint32_t>(bound) : Limits::kUnlimited;
    }
    if (limits.min > limits.max || limits.min == Limits::kUnlimited) {
      return error(ErrorCode::kInvalidInput, fmt::format("{}/{}", path, min_key), "more than the maximum");
    }
    return limits;
  }

  // --- numbers

  Result<NodeId> number(const Json& schema, bool is_integer, NodeId from, const std::string& path) {
    if (!is_integer) {
      for (const std::string& key : kOfNumbers) {
        if (schema.contains(key)) T9_TRY_VOID(note_unenforced(path, key + " of a number"));
      }
      return notation().number(from);
    }
    T9_TRY(min, read_bound(schema, "minimum", "exclusiveMinimum", +1, path));
    T9_TRY(max, read_bound(schema, "maximum", "exclusiveMaximum", -1, path));
    if (min && max && *min > *max) return error(ErrorCode::kInvalidInput, path, "minimum above maximum");
    return notation().integer(from, min, max);
  }

  // The integer nearest to the bound on the side that `inwards` (+1 or -1) points to. Bounds beyond 2^53 are none:
  // doubles cannot say them.
  Result<std::optional<int64_t>> read_bound(const Json& schema, const char* key, const char* exclusive_key, int inwards,
                                            const std::string& path) const {
    std::optional<int64_t> bound;
    for (const char* each : {key, exclusive_key}) {
      if (!schema.contains(each)) continue;
      const Json& stored = schema[each];
      const bool is_exclusive = each == exclusive_key;
      if (is_exclusive && stored.is_boolean()) {  // draft 4: a flag beside the bound
        if (stored.get<bool>() && bound) *bound += inwards;
        continue;
      }
      if (!stored.is_number()) return error(ErrorCode::kInvalidInput, fmt::format("{}/{}", path, each), "not a number");
      const auto value = stored.get<double>();
      if (std::abs(value) > 9007199254740992.0) continue;
      const double whole = inwards > 0 ? std::ceil(value) : std::floor(value);
      auto integer = static_cast<int64_t>(whole);
      if (is_exclusive && whole == value) integer += inwards;
      if (!bound || (inwards > 0 ? integer > *bound : integer < *bound)) bound = integer;
    }
    return bound;
  }

  // --- arrays

  Result<NodeId> array(const Json& schema, NodeId from, const std::string& path, int depth) {
    T9_TRY(limits, read_limits(schema, "minItems", "maxItems", path));
    Json fixed = schema.contains("prefixItems") ? schema["prefixItems"] : Json::array();
    Json rest = schema.contains("items") ? schema["items"] : Json(true);
    if (rest.is_array()) {  // before draft 2020-12
      fixed = std::exchange(rest, schema.contains("additionalItems") ? schema["additionalItems"] : Json(true));
    }
    if (!fixed.is_array()) return error(ErrorCode::kInvalidInput, path + "/prefixItems", "not an array");
    if (rest == Json(false)) limits.max = std::min<uint32_t>(limits.max, static_cast<uint32_t>(fixed.size()));
    if (limits.min > limits.max) return builder_.add_node();  // none is long enough

    // In a rule of its own: the counter is per rule.
    const RuleId rule = builder_.add_rule();
    const auto taking = limits.any() ? Counting::take(limits) : Counting{};
    const NodeId end = builder_.add_node();
    builder_.add_return(end);
    NodeId behind = notation().white_space(builder_.add_literal(builder_.start(rule), "["));
    // From `behind`, the end or one more item; taking is decided before the comma, so that nothing else can follow it.
    const auto open_item = [&](bool is_first) {
      builder_.add_byte(behind, ']', end, Counting::enough(limits));
      const NodeId taken = builder_.add_node();
      builder_.add_free(behind, taken, taking);
      return is_first ? taken : notation().white_space(builder_.add_literal(taken, ","));
    };
    for (size_t i = 0; i < fixed.size(); ++i) {
      T9_TRY(item_end, value(fixed[i], open_item(i == 0), fmt::format("{}/prefixItems/{}", path, i), depth + 1));
      behind = notation().white_space(item_end);
    }
    const NodeId first = open_item(fixed.empty());
    if (rest != Json(false)) {
      const NodeId item = builder_.add_node();
      builder_.add_free(first, item);
      T9_TRY(item_end, value(rest, item, path + "/items", depth + 1));
      behind = notation().white_space(item_end);
      builder_.add_free(open_item(false), item);
    }
    return call(rule, from);
  }

  // --- objects

  struct Property {
    std::string name;
    const Json* schema;
    bool is_required;
  };

  Result<std::vector<Property>> list_properties(const Json& schema, const Json& rest, const std::string& path) const {
    std::vector<Property> properties;
    if (schema.contains("properties")) {
      if (!schema["properties"].is_object()) {
        return error(ErrorCode::kInvalidInput, path + "/properties", "not an object");
      }
      for (const auto& [name, of_name] : schema["properties"].items()) properties.push_back({name, &of_name, false});
    }
    if (!schema.contains("required")) return properties;
    if (!schema["required"].is_array()) return error(ErrorCode::kInvalidInput, path + "/required", "not an array");
    std::map<std::string_view, size_t> places;
    for (size_t i = 0; i < properties.size(); ++i) places.emplace(properties[i].name, i);
    std::vector<Property> undeclared;
    for (const Json& name : schema["required"]) {
      if (!name.is_string()) return error(ErrorCode::kInvalidInput, path + "/required", "not an array of names");
      const auto& text = name.get_ref<const std::string&>();
      if (const auto place = places.find(text); place != places.end()) {
        properties[place->second].is_required = true;
      } else {
        undeclared.push_back({text, &rest, true});
      }
    }
    properties.insert(properties.end(), undeclared.begin(), undeclared.end());
    return properties;
  }

  Result<NodeId> object(const Json& schema, NodeId from, const std::string& path, int depth) {
    const Json rest =
        schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(!options_.closed_objects);
    T9_TRY(properties, list_properties(schema, rest, path));
    if (properties.empty() && rest == Json(true)) return notation().any_object(from);
    if (notation().sorts_names()) std::ranges::stable_sort(properties, {}, &Property::name);
    const bool is_open = rest != Json(false);

    const NodeId to = builder_.add_node();
    // Before the property i: `first` where there was none yet, `comma` behind a comma, `behind` after another property.
    NodeId first = notation().white_space(builder_.add_literal(from, "{"));
    NodeId comma = builder_.add_node();
    NodeId behind = builder_.add_node();
    const auto add_comma = [&] { builder_.add_free(notation().white_space(builder_.add_literal(behind, ",")), comma); };
    for (const Property& property : properties) {
      add_comma();
      const NodeId key = builder_.add_node();
      builder_.add_free(first, key);
      builder_.add_free(comma, key);
      const NodeId colon = builder_.add_literal(notation().white_space(notation().name(key, property.name)), ":");
      const std::string property_path = fmt::format("{}/properties/{}", path, escape_pointer_part(property.name));
      T9_TRY(end, value(*property.schema, notation().white_space(colon), property_path, depth + 1));
      const std::array<NodeId, 3> next = {builder_.add_node(), builder_.add_node(), builder_.add_node()};
      builder_.add_free(notation().white_space(end), next[2]);
      if (!property.is_required) {
        builder_.add_free(first, next[0]);
        builder_.add_free(comma, next[1]);
        builder_.add_free(behind, next[2]);
      }
      first = next[0];
      comma = next[1];
      behind = next[2];
    }
    builder_.add_byte(first, '}', to);
    builder_.add_byte(behind, '}', to);
    if (!is_open) return to;
    std::vector<std::string> names;
    for (const Property& property : properties) names.push_back(property.name);
    add_comma();
    const NodeId key = builder_.add_node();
    builder_.add_free(first, key);
    builder_.add_free(comma, key);
    const NodeId colon = builder_.add_literal(notation().white_space(notation().name_other_than(key, names)), ":");
    T9_TRY(end, value(rest, notation().white_space(colon), path + "/additionalProperties", depth + 1));
    builder_.add_free(notation().white_space(end), behind);
    return to;
  }

  // --- parameters

  // Those that must be there come first; others only where the schema says what they are, or lists none.
  Result<NodeId> parameters(const Json& schema, NodeId from, const std::string& path, int depth) {
    const Json rest =
        schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(!options_.closed_objects);
    T9_TRY(properties, list_properties(schema, rest, path));
    if (properties.empty() && rest == Json(true)) return any_parameters(from);
    const Inside inside(*this, {&xml_, false});
    std::ranges::stable_partition(properties, &Property::is_required);
    std::vector<std::string> names;
    NodeId here = from;
    for (const Property& property : properties) {
      names.push_back(property.name);
      const NodeId begin = builder_.add_node();
      builder_.add_free(here, begin);
      const std::string property_path = fmt::format("{}/properties/{}", path, escape_pointer_part(property.name));
      T9_TRY(end, value(*property.schema, xml_.name(begin, property.name), property_path, depth + 1));
      const NodeId next = builder_.add_literal(end, "\n");
      if (!property.is_required) builder_.add_free(here, next);
      here = next;
    }
    if (!rest.is_object()) return here;
    const NodeId more = builder_.add_node();
    builder_.add_free(here, more);
    T9_TRY(end, value(rest, xml_.name_other_than(more, names), path + "/additionalProperties", depth + 1));
    builder_.add_byte(end, '\n', more);
    return more;
  }

  NodeId any_parameters(NodeId from) {
    const NodeId more = builder_.add_node();
    builder_.add_free(from, more);
    builder_.add_byte(xml_.any_value(xml_.name_other_than(more, {})), '\n', more);
    return more;
  }

  const Json* root_ = nullptr;  // the schema that is being added
  CompileOptions options_;
  std::string context_;
  AutomatonBuilder& builder_;
  JsonNotation json_;
  JsonNotation content_json_;
  JsonNotation json_in_xml_;
  XmlNotation xml_;
  GemmaNotation gemma_;
  Place place_ = {&json_, false};
  std::map<std::pair<const Json*, Place>, RuleId> rules_;                          // of what is referred to
  std::map<std::pair<std::string, Place>, RuleId> constants_;                      // of equal lists
  std::map<std::tuple<std::string, uint32_t, uint32_t, Place>, RuleId> patterns_;  // by pattern and limits
  std::deque<Pending> pending_;
  std::vector<std::string> not_enforced_;
  int n_schemas_ = 0;
};

SchemaCompiler::SchemaCompiler(AutomatonBuilder& builder, std::vector<std::string> excluded_in_content)
    : implementation_(std::make_unique<Implementation>(builder, std::move(excluded_in_content))) {}
SchemaCompiler::~SchemaCompiler() = default;

Result<NodeId> SchemaCompiler::add_schema(const Json& schema, const CompileOptions& options, const std::string& context,
                                          Written written, NodeId from) {
  return implementation_->add_schema(schema, options, context, written, from);
}

NodeId SchemaCompiler::add_any_object(Written written, NodeId from) {
  return implementation_->add_any_object(written, from);
}
JsonNotation& SchemaCompiler::json() { return implementation_->json(); }
std::vector<std::string> SchemaCompiler::take_notes() { return implementation_->take_notes(); }

}  // namespace tempo9::grammar
