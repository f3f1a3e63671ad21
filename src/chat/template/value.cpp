#include "chat/template/value.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace tempo9::chat {
namespace {

// From this many entries on a dict keeps an index.
constexpr size_t kIndexedSize = 8;

int nesting_around(const std::vector<Value>& values) {
  int deepest = 0;
  for (const Value& value : values) deepest = std::max(deepest, nesting_of(value));
  return deepest + 1;
}

// Equality that dict keys have.
bool is_same_key(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return a.bytes() == b.bytes();
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.is_none() && b.is_none()) return true;
  if (a.is_list() && b.is_list()) return std::ranges::equal(a.items(), b.items(), is_same_key);
  return false;
}

bool is_printable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

void append_escaped(std::string& out, char32_t c, char quote) {
  if (c == static_cast<char32_t>(quote) || c == '\\') {
    out += '\\';
    out += static_cast<char>(c);
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (is_printable(c)) {
    append_utf8(out, c);
  } else if (c < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  } else if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
  }
}

void append_string_repr(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t pos = 0; pos < text.size();) append_escaped(out, decode_utf8(text, pos), quote);
  out += quote;
}

// Lists that were appended to may contain themselves, and nest deeper than their count says: `depth` is counted anew.
void append_repr_within(const Value& value, Meter& meter, std::string& out, int depth);

void append_items(const std::vector<Value>& items, Meter& meter, std::string& out, int depth) {
  bool is_first = true;
  for (const Value& item : items) {
    if (!meter.can_hold(out.size())) return;
    if (!is_first) out += ", ";
    is_first = false;
    append_repr_within(item, meter, out, depth);
  }
}

void append_list_repr(const List& list, Meter& meter, std::string& out, int depth) {
  struct Style {
    std::string_view open, close;
  };
  auto style = [&]() -> Style {
    switch (list.kind) {
      case SequenceKind::kTuple:
        return {"(", list.items.size() == 1 ? ",)" : ")"};
      case SequenceKind::kKeysView:
        return {"dict_keys([", "])"};
      case SequenceKind::kValuesView:
        return {"dict_values([", "])"};
      case SequenceKind::kItemsView:
        return {"dict_items([", "])"};
      case SequenceKind::kGenerator:
        return {"<generator object>", ""};
      default:
        return {"[", "]"};
    }
  }();
  out += style.open;
  if (list.kind != SequenceKind::kGenerator) append_items(list.items, meter, out, depth);
  out += style.close;
}

void append_dict_repr(const Dict& dict, Meter& meter, std::string& out, int depth) {
  out += '{';
  bool is_first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!meter.can_hold(out.size())) return;
    if (!is_first) out += ", ";
    is_first = false;
    append_repr_within(key, meter, out, depth);
    out += ": ";
    append_repr_within(value, meter, out, depth);
  }
  out += '}';
}

bool is_equal_within(const Value& a, const Value& b, Meter& meter, int depth);

bool are_lists_equal(const List& a, const List& b, Meter& meter, int depth) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if (!is_equal_within(a.items[i], b.items[i], meter, depth)) return false;
  return true;
}

bool are_dicts_equal(const Dict& a, const Dict& b, Meter& meter, int depth) {
  if (a.entries().size() != b.entries().size()) return false;
  return std::ranges::all_of(a.entries(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other && is_equal_within(entry.second, *other, meter, depth);
  });
}

bool is_equal_within(const Value& a, const Value& b, Meter& meter, int depth) {
  meter.step();
  if (depth > kMaxNesting || meter.exceeded()) return false;
  if (a.is_string() && b.is_string()) {
    meter.step_bytes(std::min(a.bytes().size(), b.bytes().size()));
    return a.bytes() == b.bytes();
  }
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.is_list() && b.is_list())
    return a.list() == b.list() || are_lists_equal(*a.list(), *b.list(), meter, depth + 1);
  if (a.is_dict() && b.is_dict())
    return a.dict() == b.dict() || are_dicts_equal(*a.dict(), *b.dict(), meter, depth + 1);
  if (a.storage().index() != b.storage().index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (a.is<Namespace*>()) return a.get<Namespace*>() == b.get<Namespace*>();
  if (a.is<const MacroObject*>()) return a.get<const MacroObject*>() == b.get<const MacroObject*>();
  if (a.is<const Builtin*>()) return a.get<const Builtin*>() == b.get<const Builtin*>();
  if (a.is<std::shared_ptr<Loop>>()) return a.get<std::shared_ptr<Loop>>() == b.get<std::shared_ptr<Loop>>();
  return false;
}

void append_repr_within(const Value& value, Meter& meter, std::string& out, int depth) {
  meter.step();
  if (depth > kMaxNesting || meter.exceeded()) {
    out += "...";
  } else if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is<bool>()) {
    out += value.get<bool>() ? "True" : "False";
  } else if (value.is<int64_t>()) {
    out += fmt::to_string(value.integer());
  } else if (value.is<double>()) {
    out += float_repr(value.number());
  } else if (value.is_string()) {
    append_string_repr(value.bytes(), out);
  } else if (value.is_list()) {
    append_list_repr(*value.list(), meter, out, depth + 1);
  } else if (value.is_dict()) {
    append_dict_repr(*value.dict(), meter, out, depth + 1);
  } else {
    out += fmt::format("<{}>", type_name(value));
  }
}

Result<std::partial_ordering> compare_within(const Value& a, const Value& b, Meter& meter, int depth) {
  meter.step();
  if (a.is_integral() && b.is_integral()) return std::partial_ordering(a.integer() <=> b.integer());
  if (a.is_number() && b.is_number()) return a.number() <=> b.number();
  if (a.is_string() && b.is_string()) {
    meter.step_bytes(std::min(a.bytes().size(), b.bytes().size()));
    return std::partial_ordering(a.bytes() <=> b.bytes());  // UTF-8 order is code point order
  }
  for (const Value* side : {&a, &b})
    if (side->is_undefined()) return fail(undefined_error(*side));
  if (a.is_list() && b.is_list() && a.list()->kind == b.list()->kind && a.list()->is_indexable() &&
      depth < kMaxNesting) {
    const auto& left = a.items();
    const auto& right = b.items();
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i)
      if (!is_equal(left[i], right[i], meter)) return compare_within(left[i], right[i], meter, depth + 1);
    return std::partial_ordering(left.size() <=> right.size());
  }
  return fail(ErrorCode::kInvalidInput,
              fmt::format("'{}' and '{}' have no order between them", type_name(a), type_name(b)));
}

}  // namespace

String::String(Text value, Meter* payer, bool markup) : text(std::move(value)), is_markup(markup), payer_(payer) {
  if (payer_) payer_->allocate(sizeof(String) + text.size());
}

String::~String() {
  if (payer_) payer_->release(sizeof(String) + text.size());
}

List::List(std::vector<Value> values, SequenceKind sequence_kind, Meter& meter)
    : items(std::move(values)), kind(sequence_kind), nesting(nesting_around(items)), payer(meter) {
  paid_bytes = sizeof(List) + items.size() * sizeof(Value);
  payer.allocate(paid_bytes);
  payer.nest(nesting);
}

List::~List() { payer.release(paid_bytes); }

Dict::~Dict() { payer_.release(paid_bytes_); }

size_t Dict::index_of(const Value& key) const {
  if (key.is_string() && entries_.size() > kIndexedSize) {
    auto it = text_index_.find(key.bytes());
    return it == text_index_.end() ? entries_.size() : it->second;
  }
  payer_.step(static_cast<int64_t>(entries_.size() / 8));
  auto it = std::ranges::find_if(entries_, [&](const auto& entry) { return is_same_key(entry.first, key); });
  return static_cast<size_t>(it - entries_.begin());
}

const Value* Dict::find(const Value& key) const {
  const size_t index = index_of(key);
  return index < entries_.size() ? &entries_[index].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (entries_.size() > kIndexedSize) {
    auto it = text_index_.find(key);
    return it == text_index_.end() ? nullptr : &entries_[it->second].second;
  }
  for (const auto& [name, value] : entries_)
    if (name.is_string() && name.bytes() == key) return &value;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  nesting_ = std::max({nesting_, nesting_of(key) + 1, nesting_of(value) + 1});
  payer_.nest(nesting_);
  const size_t index = index_of(key);
  if (index < entries_.size()) {
    entries_[index].second = std::move(value);
    return;
  }
  constexpr size_t kEntryBytes = sizeof(Value) * 2 + 64;  // with its node of the index
  payer_.allocate(kEntryBytes);
  paid_bytes_ += kEntryBytes;
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.back().first.is_string()) text_index_.emplace(entries_.back().first.bytes(), index);
}

Value* Namespace::find(std::string_view name) {
  auto it = std::ranges::find(attributes, name, &std::pair<std::string, Value>::first);
  return it == attributes.end() ? nullptr : &it->second;
}

void Namespace::set(std::string_view name, Value value) {
  if (Value* old = find(name)) {
    *old = std::move(value);
  } else {
    attributes.emplace_back(name, std::move(value));
  }
}

Value Value::undefined(std::string problem) {
  Value value;
  value.storage_ = Undefined{std::make_shared<const std::string>(std::move(problem))};
  return value;
}

bool Value::is_callable() const {
  return is<const MacroObject*>() || is<const Builtin*>() || is<std::shared_ptr<const BoundMethod>>() ||
         is<std::shared_ptr<Loop>>();
}

Error undefined_error(const Value& value) {
  const auto& problem = value.get<Undefined>().problem;
  return Error(ErrorCode::kInvalidInput, problem ? *problem : "an undefined value was used");
}

std::string_view type_name(const Value& value) {
  struct Namer {
    std::string_view operator()(const Undefined&) const { return "Undefined"; }
    std::string_view operator()(const None&) const { return "NoneType"; }
    std::string_view operator()(bool) const { return "bool"; }
    std::string_view operator()(int64_t) const { return "int"; }
    std::string_view operator()(double) const { return "float"; }
    std::string_view operator()(const std::shared_ptr<const String>&) const { return "str"; }
    std::string_view operator()(const std::shared_ptr<Dict>&) const { return "dict"; }
    std::string_view operator()(Namespace*) const { return "Namespace"; }
    std::string_view operator()(const MacroObject*) const { return "Macro"; }
    std::string_view operator()(const std::shared_ptr<Loop>&) const { return "LoopContext"; }
    std::string_view operator()(const std::shared_ptr<const BoundMethod>&) const { return "method"; }
    std::string_view operator()(const Builtin*) const { return "function"; }
    std::string_view operator()(const std::shared_ptr<List>& list) const {
      switch (list->kind) {
        case SequenceKind::kList:
          return "list";
        case SequenceKind::kTuple:
          return "tuple";
        case SequenceKind::kRange:
          return "range";
        case SequenceKind::kGenerator:
          return "generator";
        case SequenceKind::kKeysView:
          return "dict_keys";
        case SequenceKind::kValuesView:
          return "dict_values";
        case SequenceKind::kItemsView:
          return "dict_items";
      }
      return "list";
    }
  };
  return std::visit(Namer(), value.storage());
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.is_string()) return !value.bytes().empty();
  if (value.is_list()) return !value.list()->has_length() || !value.items().empty();
  if (value.is_dict()) return !value.dict()->entries().empty();
  return true;
}

Text to_text(const Value& value, Meter& meter) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return Text();
  std::string text;
  append_repr(value, meter, text);
  return Text::from_outside(std::move(text));
}

void append_repr(const Value& value, Meter& meter, std::string& out) { append_repr_within(value, meter, out, 0); }

bool is_equal(const Value& a, const Value& b, Meter& meter) { return is_equal_within(a, b, meter, 0); }

Result<std::partial_ordering> compare(const Value& a, const Value& b, Meter& meter) {
  return compare_within(a, b, meter, 0);
}

bool is_hashable(const Value& value) {
  if (value.is_dict()) return false;
  if (!value.is_list()) return true;
  return value.list()->kind == SequenceKind::kTuple &&
         std::ranges::none_of(value.items(), [](const Value& item) { return item.is_list() || item.is_dict(); });
}

int nesting_of(const Value& value) {
  if (value.is_list()) return value.list()->nesting;
  if (value.is_dict()) return value.dict()->nesting();
  return 0;
}

// The shortest digits that read back as the same number, laid out as Python does: with an exponent from 1e16 up and
// below 1e-4.
std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  std::string_view exponent_text = text.substr(e + 1);
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::string sign = text.starts_with('-') ? "-" : "";
  std::string digits(text.substr(sign.size(), e - sign.size()));
  std::erase(digits, '.');
  const int n_digits = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (n_digits > 1) mantissa += "." + digits.substr(1);
    return fmt::format("{}{}e{}{:02}", sign, mantissa, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (n_digits <= exponent + 1)
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - n_digits), '0') + ".0";
  const auto point = static_cast<size_t>(exponent + 1);
  return sign + digits.substr(0, point) + "." + digits.substr(point);
}

}  // namespace tempo9::chat
