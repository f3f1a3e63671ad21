#include "chat/template/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "chat/json_text.h"

namespace tempo9::chat {
namespace {

// `is_trusted` is for a string itself, not for what is inside a list or an object.
Value from_json(Context& context, const Json& json, bool is_trusted, int depth);

Value number_from_json(const Json& json) {
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return json.get<double>();
  return json.get<int64_t>();
}

Value list_from_json(Context& context, const Json& json, int depth) {
  std::vector<Value> items;
  items.reserve(json.size());
  for (const Json& item : json) items.push_back(from_json(context, item, false, depth));
  return context.list(std::move(items));
}

template <class IsTrusted>
Value dict_from_json(Context& context, const Json& json, int depth, IsTrusted is_trusted) {
  auto dict = context.dict();
  for (const auto& [key, value] : json.items())
    dict->set(context.outside_string(key), from_json(context, value, is_trusted(key), depth));
  return dict;
}

Value from_json(Context& context, const Json& json, bool is_trusted, int depth) {
  context.meter().nest(depth);
  if (context.meter().exceeded()) return None();
  switch (json.type()) {
    case Json::value_t::object:
      return dict_from_json(context, json, depth + 1, [](const std::string&) { return false; });
    case Json::value_t::array:
      return list_from_json(context, json, depth + 1);
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return context.string(is_trusted ? Text::from_template(text) : Text::from_outside(text));
    }
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
      return number_from_json(json);
    default:
      return None();
  }
}

class Dumper {
 public:
  Dumper(Context& context, const JsonStyle& style) : context_(context), style_(style) {}

  Result<void> dump(const Value& value, int depth) {
    context_.meter().step();
    if (context_.meter().exceeded() || !context_.meter().can_hold(out_.size())) return fail(context_.meter().error());
    if (depth > kMaxNesting) return fail(ErrorCode::kInvalidInput, "the value nests too deeply for JSON");
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is<bool>()) {
      out_ += value.get<bool>() ? "true" : "false";
    } else if (value.is<int64_t>()) {
      out_ += fmt::to_string(value.integer());
    } else if (value.is<double>()) {
      out_ += number_text(value.number());
    } else if (value.is_string()) {
      append_string(value.bytes());
    } else if (value.is_list() && value.list()->kind <= SequenceKind::kTuple) {
      return dump_list(value.items(), depth);
    } else if (value.is_dict()) {
      return dump_dict(*value.dict(), depth);
    } else {
      return not_serializable(value);
    }
    return {};
  }

  std::string take() { return std::move(out_); }

 private:
  static std::unexpected<Error> not_serializable(const Value& value) {
    return fail(ErrorCode::kInvalidInput, fmt::format("Object of type {} is not JSON serializable", type_name(value)));
  }

  static std::string number_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }

  void append_code_unit(uint32_t unit) { out_ += fmt::format("\\u{:04x}", unit); }

  void append_ascii(char32_t c) {
    if (c < 0x10000) return append_code_unit(c);
    append_code_unit(0xD800 + ((c - 0x10000) >> 10));
    append_code_unit(0xDC00 + ((c - 0x10000) & 0x3FF));
  }

  void append_string(std::string_view text) {
    context_.meter().step_bytes(text.size());
    out_ += '"';
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      const char32_t c = decode_utf8(text, pos);
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\f':
          out_ += "\\f";
          break;
        case '\b':
          out_ += "\\b";
          break;
        default:
          if (c < 0x20 || (style_.ensure_ascii && c > 0x7E)) {
            append_ascii(c);
          } else {
            out_.append(text, begin, pos - begin);
          }
      }
    }
    out_ += '"';
  }

  void begin_item(bool is_first, int depth) {
    if (!is_first) out_ += style_.item_separator;
    new_line(depth);
  }

  void new_line(int depth) {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth; ++i) out_ += *style_.indent;
  }

  Result<void> dump_list(const std::vector<Value>& items, int depth) {
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      begin_item(i == 0, depth + 1);
      T9_TRY_VOID(dump(items[i], depth + 1));
    }
    if (!items.empty()) new_line(depth);
    out_ += ']';
    return {};
  }

  Result<std::string> key_text(const Value& key) {
    if (key.is_string()) return std::string(key.bytes());
    if (key.is_none()) return "null";
    if (key.is<bool>()) return key.get<bool>() ? "true" : "false";
    if (key.is<int64_t>()) return fmt::to_string(key.integer());
    if (key.is<double>()) return number_text(key.number());
    return fail(ErrorCode::kInvalidInput, fmt::format("JSON keys cannot be of type {}", type_name(key)));
  }

  Result<void> dump_dict(const Dict& dict, int depth) {
    std::vector<std::pair<std::string, const Value*>> entries;
    for (const auto& [key, value] : dict.entries()) {
      T9_TRY(text, key_text(key));
      entries.emplace_back(std::move(text), &value);
    }
    if (style_.sort_keys) std::ranges::stable_sort(entries, {}, &std::pair<std::string, const Value*>::first);
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      begin_item(i == 0, depth + 1);
      append_string(entries[i].first);
      out_ += style_.key_separator;
      T9_TRY_VOID(dump(*entries[i].second, depth + 1));
    }
    if (!entries.empty()) new_line(depth);
    out_ += '}';
    return {};
  }

  Context& context_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

TrustedNames::TrustedNames(const std::vector<std::string>& names) {
  for (std::string_view name : names) {
    const size_t mark = name.find("[].");
    if (mark == std::string_view::npos) {
      names_.emplace_back(name, "");
    } else {
      names_.emplace_back(name.substr(0, mark), name.substr(mark + 3));
    }
  }
}

bool TrustedNames::trusts(std::string_view variable) const { return trusts_field(variable, ""); }

bool TrustedNames::trusts_field(std::string_view variable, std::string_view field) const {
  return std::ranges::any_of(names_, [&](const auto& name) { return name.first == variable && name.second == field; });
}

Value variable_from_json(Context& context, std::string_view name, const Json& json, const TrustedNames& trusted) {
  if (!json.is_array()) return from_json(context, json, trusted.trusts(name), 1);
  std::vector<Value> items;
  items.reserve(json.size());
  for (const Json& item : json) {
    auto is_trusted = [&](const std::string& field) { return !field.empty() && trusted.trusts_field(name, field); };
    items.push_back(item.is_object() ? dict_from_json(context, item, 3, is_trusted)
                                     : from_json(context, item, false, 2));
  }
  return context.list(std::move(items));
}

Result<Value> parse_json(Context& context, std::string_view text) {
  context.meter().step_bytes(text.size() * 8);
  const std::optional<Json> json = parse_json_text(text);
  if (!json) return fail(ErrorCode::kInvalidInput, "from_json: the text is not JSON");
  return from_json(context, *json, false, 1);
}

Result<std::string> dump_json(Context& context, const Value& value, const JsonStyle& style) {
  Dumper dumper(context, style);
  T9_TRY_VOID(dumper.dump(value, 0));
  return dumper.take();
}

}  // namespace tempo9::chat
