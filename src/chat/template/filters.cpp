// The filters: what stands behind a |. The table is at the end.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "base/utf8.h"
#include "chat/template/builtin.h"
#include "chat/template/format.h"
#include "chat/template/json.h"
#include "chat/template/operators.h"
#include "chat/template/strings.h"

namespace tempo9::chat {
namespace {

std::unexpected<Error> filter_error(std::string message) { return fail(ErrorCode::kInvalidInput, std::move(message)); }

Value argument_or(const Bound& args, size_t parameter, Value fallback) {
  return args[parameter] ? *args[parameter] : std::move(fallback);
}

// --- text ---

// Text that a filter has rewritten: template text stays template text if there was nothing else in it.
Value rewritten(Context& context, const Text& origin, std::string bytes) {
  return context.string(origin.all_trusted() ? Text::from_template(std::move(bytes))
                                             : Text::from_outside(std::move(bytes)));
}

template <std::string (*kChange)(std::string_view)>
Result<Value> filter_case(Context& context, const Value& self, const Bound&) {
  const Text text = to_text(self, context.meter());
  context.meter().step_bytes(text.size() * 8);
  return rewritten(context, text, kChange(text.bytes));
}

std::string title_case(std::string_view text) {
  std::string out;
  bool at_start = true;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = decode_utf8(text, pos);
    const std::string_view character = text.substr(begin, pos - begin);
    out += at_start ? to_upper(character) : to_lower(character);
    at_start = is_space(c) || std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos;
  }
  return out;
}

Result<Value> filter_trim(Context& context, const Value& self, const Bound& args) {
  const Text text = to_text(self, context.meter());
  context.meter().step_bytes(text.size());
  if (!args[0] || args[0]->is_none()) {
    auto [begin, end] = strip_space(text.bytes);
    return context.string(text.slice(begin, end));
  }
  T9_TRY(chars, args.text_or(0, ""));
  auto [begin, end] = strip_chars(text.bytes, chars);
  return context.string(text.slice(begin, end));
}

Result<Value> filter_string(Context& context, const Value& self, const Bound&) {
  return self.is_string() ? self : context.string(to_text(self, context.meter()));
}

Result<Value> filter_safe(Context& context, const Value& self, const Bound&) {
  return context.markup(to_text(self, context.meter()));
}

Result<Value> filter_escape(Context& context, const Value& self, const Bound&) {
  const Text text = to_text(self, context.meter());
  return context.markup(self.is_markup() ? text : escape(text));
}

Result<Value> filter_replace(Context& context, const Value& self, const Bound& args) {
  const Text text = to_text(self, context.meter());
  const Text old_text = to_text(*args[0], context.meter());
  const Text new_text = to_text(*args[1], context.meter());
  int64_t limit = -1;
  if (args[2] && !args[2]->is_none()) {
    T9_TRY(count, args.integer_or(2, -1));
    limit = count;
  }
  T9_TRY(result, replace(context, text, old_text, new_text, limit));
  return context.string(std::move(result));
}

Result<Value> filter_indent(Context& context, const Value& self, const Bound& args) {
  Text text = to_text(self, context.meter());
  Text indent;
  if (args[0] && args[0]->is_string()) {
    indent = args[0]->text();
  } else {
    T9_TRY(width, args.integer_or(0, 4));
    if (width > 1000) return filter_error("indent: more than 1000 blanks");
    indent.append_trusted(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
  }
  const bool first = args.truth_or(1, false);
  const bool blank = args.truth_or(2, false);
  text.append_trusted("\n");  // so that a text that ends with a newline has an empty last line
  const std::vector<Text> lines = split_lines(text);
  Text out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append_trusted("\n");
    if (i == 0 ? first : (blank || lines[i].size() > 0)) out.append(indent);
    out.append(lines[i]);
    if (!context.meter().can_hold(out.size())) return fail(context.meter().error());
  }
  context.meter().step_bytes(out.size());
  return context.string(std::move(out));
}

Result<Value> filter_center(Context& context, const Value& self, const Bound& args) {
  const Text text = to_text(self, context.meter());
  T9_TRY(width, args.integer_or(0, 80));
  const int64_t missing = width - count_chars(text.bytes);
  if (missing <= 0) return context.string(text);
  if (!context.meter().can_hold(text.size() + static_cast<size_t>(missing))) return fail(context.meter().error());
  const int64_t left = missing / 2 + (missing & width & 1);
  Text out = Text::from_template(std::string(static_cast<size_t>(left), ' '));
  out.append(text);
  out.append_trusted(std::string(static_cast<size_t>(missing - left), ' '));
  return context.string(std::move(out));
}

Result<Value> filter_wordcount(Context& context, const Value& self, const Bound&) {
  const Text text = to_text(self, context.meter());
  return static_cast<int64_t>(split_space(text, -1).size());
}

Result<Value> filter_format(Context& context, const Value& self, const Bound& args) {
  const Value pattern = context.string(to_text(self, context.meter()));
  const Arguments& all = args.all();
  if (all.named.empty()) return format_percent(context, pattern, context.tuple(all.positional));
  if (!all.positional.empty()) return filter_error("format: positional and keyword arguments at once");
  auto values = context.dict();
  for (const auto& [name, value] : all.named) values->set(context.outside_string(name), value);
  return format_percent(context, pattern, Value(std::move(values)));
}

// --- JSON ---

Result<std::string> separator(const Value& pair, size_t index) {
  if (!pair.is_list() || pair.items().size() != 2 || !pair.items()[index].is_string())
    return filter_error("tojson: separators are a tuple of two strings");
  return std::string(pair.items()[index].bytes());
}

Result<Value> filter_tojson(Context& context, const Value& self, const Bound& args) {
  JsonStyle style;
  style.ensure_ascii = args.truth_or(0, false);
  style.sort_keys = args.truth_or(3, false);
  if (args[1] && args[1]->is_string()) {
    style.indent = std::string(args[1]->bytes());
  } else if (args[1] && !args[1]->is_none()) {
    T9_TRY(width, args.integer_or(1, 0));
    style.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(width, 0, 1000)), ' ');
  }
  if (style.indent) style.item_separator = ",";
  if (args[2] && !args[2]->is_none()) {
    T9_TRY(item, separator(*args[2], 0));
    T9_TRY(key, separator(*args[2], 1));
    style.item_separator = std::move(item);
    style.key_separator = std::move(key);
  }
  T9_TRY(text, dump_json(context, self, style));
  return context.outside_string(std::move(text));
}

Result<Value> filter_from_json(Context& context, const Value& self, const Bound&) {
  if (!self.is_string()) return filter_error(fmt::format("from_json: a str is needed, not '{}'", type_name(self)));
  return parse_json(context, self.bytes());
}

// --- numbers ---

// int(text, base) of Python; empty when it does not parse.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  auto [begin, end] = strip_space(text);
  std::string digits(text.substr(begin, end - begin));
  bool is_negative = false;
  if (digits.starts_with('-') || digits.starts_with('+')) {
    is_negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  if (base == 16 && (digits.starts_with("0x") || digits.starts_with("0X"))) digits.erase(0, 2);
  if (base == 8 && (digits.starts_with("0o") || digits.starts_with("0O"))) digits.erase(0, 2);
  if (base == 2 && (digits.starts_with("0b") || digits.starts_with("0B"))) digits.erase(0, 2);
  std::erase(digits, '_');
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  int64_t value = 0;
  auto [stop, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (status != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return is_negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  auto [begin, end] = strip_space(text);
  std::string digits(text.substr(begin, end - begin));
  std::erase(digits, '_');
  std::string_view rest = digits;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  double value = 0;
  auto [stop, status] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (rest.empty() || stop != rest.data() + rest.size()) return std::nullopt;
  if (status == std::errc::result_out_of_range) return HUGE_VAL;
  return status == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> truncated(double value) {
  if (!(std::fabs(value) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(value);
}

Result<Value> filter_int(Context&, const Value& self, const Bound& args) {
  if (self.is_undefined()) return fail(undefined_error(self));
  T9_TRY(base, args.integer_or(1, 10));
  if (base < 2 || base > 36) return filter_error("int: the base must be between 2 and 36");
  if (self.is_integral()) return self.integer();
  std::optional<int64_t> value;
  if (self.is_string()) {
    value = parse_integer(self.bytes(), base);
    if (!value)
      if (auto number = parse_float(self.bytes())) value = truncated(*number);
  } else if (self.is_number()) {
    value = truncated(self.number());
  }
  return value ? Value(*value) : argument_or(args, 0, 0);
}

Result<Value> filter_float(Context&, const Value& self, const Bound& args) {
  if (self.is_undefined()) return fail(undefined_error(self));
  if (self.is_number()) return self.number();
  if (self.is_string())
    if (auto value = parse_float(self.bytes())) return *value;
  return argument_or(args, 0, 0.0);
}

Result<Value> filter_abs(Context&, const Value& self, const Bound&) {
  if (!self.is_number()) return filter_error(fmt::format("bad operand type for abs(): '{}'", type_name(self)));
  if (self.is<double>()) return std::fabs(self.number());
  if (self.integer() == INT64_MIN) return filter_error("the result does not fit an integer of 64 bits");
  return std::abs(self.integer());
}

// Half to even at the wanted digit of the exact binary value, which is what printing with that precision does.
double round_common(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  const std::string text = fmt::format("{:.{}f}", value, precision);
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

Result<Value> filter_round(Context&, const Value& self, const Bound& args) {
  if (!self.is_number()) return filter_error(fmt::format("round needs a number, not '{}'", type_name(self)));
  T9_TRY(precision, args.integer_or(0, 0));
  T9_TRY(method, args.text_or(1, "common"));
  if (method == "common") {
    if (self.is_integral() && precision >= 0) return self.integer();
    if (precision < -18) return filter_error("round: the precision is too small");
    const double rounded = round_common(self.number(), precision);
    if (!self.is_integral()) return rounded;
    const auto whole = truncated(rounded);
    if (!whole) return filter_error("the result does not fit an integer of 64 bits");
    return *whole;
  }
  if (method != "ceil" && method != "floor") return filter_error("round: the method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.number() * unit;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

// --- sequences ---

Result<Value> filter_length(Context& context, const Value& self, const Bound&) {
  T9_TRY(n, length_of(context, self));
  return n;
}

Result<Value> filter_list(Context& context, const Value& self, const Bound&) {
  T9_TRY(items, iterate(context, self));
  return context.list(std::move(items));
}

Result<Value> filter_first(Context& context, const Value& self, const Bound&) {
  T9_TRY(items, iterate(context, self));
  if (items.empty()) return Value::undefined("No first item, sequence was empty.");
  return items.front();
}

Result<Value> filter_last(Context& context, const Value& self, const Bound&) {
  if (self.is_list() && !self.list()->has_length())
    return filter_error(fmt::format("'{}' object is not reversible", type_name(self)));
  T9_TRY(items, iterate(context, self));
  if (items.empty()) return Value::undefined("No last item, sequence was empty.");
  return items.back();
}

Result<Value> filter_reverse(Context& context, const Value& self, const Bound&) {
  T9_TRY(items, iterate(context, self));
  std::ranges::reverse(items);
  if (!self.is_string()) return context.generator(std::move(items));
  Text out;
  for (const Value& item : items) out.append(item.text());
  return context.string(std::move(out));
}

Result<Value> filter_items(Context& context, const Value& self, const Bound&) {
  if (self.is_undefined()) return context.generator({});
  if (!self.is_dict()) return filter_error("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict()->entries()) pairs.push_back(context.tuple({key, value}));
  context.meter().step(static_cast<int64_t>(pairs.size()));
  return context.generator(std::move(pairs));
}

// The value reached by a dotted path: "function.name", or an index. `attribute` may be an int.
Result<Value> get_path(Context& context, Value value, const Value& attribute, const Value* fallback) {
  std::vector<Value> keys;
  if (!attribute.is_string()) {
    keys.push_back(attribute);
  } else {
    for (const Text& part : split_at(attribute.text(), ".", -1)) {
      auto index = parse_integer(part.bytes, 10);
      const bool is_index = index && part.bytes.find_first_not_of("0123456789") == std::string::npos;
      keys.push_back(is_index ? Value(*index) : context.string(part));
    }
  }
  for (const Value& key : keys) {
    T9_TRY(next, get_item(context, value, key));
    value = next.is_undefined() && fallback ? *fallback : std::move(next);
  }
  return value;
}

Result<Value> attribute_of(Context& context, const Value& value, const Value* attribute) {
  if (!attribute || attribute->is_none()) return value;
  return get_path(context, value, *attribute, nullptr);
}

Result<Value> filter_join(Context& context, const Value& self, const Bound& args) {
  const Text glue = args[0] ? to_text(*args[0], context.meter()) : Text();
  T9_TRY(items, iterate(context, self));
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    T9_TRY(item, attribute_of(context, items[i], args[1]));
    if (i > 0) out.append(glue);
    out.append(to_text(item, context.meter()));
    if (!context.meter().can_hold(out.size())) return fail(context.meter().error());
  }
  context.meter().step_bytes(out.size());
  return context.string(std::move(out));
}

// An order for sort and its like: strings without regard to case unless `case_sensitive`.
class Sorter {
 public:
  Sorter(Context& context, bool case_sensitive) : context_(context), case_sensitive_(case_sensitive) {}

  Value key(const Value& value) const {
    if (case_sensitive_ || !value.is_string()) return value;
    context_.meter().step_bytes(value.bytes().size() * 8);
    return context_.outside_string(to_lower(value.bytes()));
  }

  // The first error stops all comparing.
  bool is_less(const Value& a, const Value& b) {
    if (error_ || context_.meter().exceeded()) return false;
    auto order = compare(a, b, context_.meter());
    if (!order) {
      error_ = std::move(order).error();
      return false;
    }
    return *order < 0;
  }

  Result<void> status() const {
    if (error_) return fail(*error_);
    return {};
  }

 private:
  Context& context_;
  const bool case_sensitive_;
  std::optional<Error> error_;
};

struct Keyed {
  Value key;
  Value value;
};

// The elements with the keys they are ordered by. `attribute` may name several, with commas between them.
Result<std::vector<Keyed>> keyed_items(Context& context, const Value& self, const Value* attribute,
                                       const Sorter& sorter) {
  T9_TRY(items, iterate(context, self));
  std::vector<Text> paths;
  if (attribute && attribute->is_string()) paths = split_at(attribute->text(), ",", -1);
  std::vector<Keyed> keyed;
  for (Value& item : items) {
    Value key;
    if (paths.size() > 1) {
      std::vector<Value> parts;
      for (const Text& path : paths) {
        T9_TRY(part, get_path(context, item, context.string(path), nullptr));
        parts.push_back(sorter.key(part));
      }
      key = context.list(std::move(parts));
    } else {
      T9_TRY(part, attribute_of(context, item, attribute));
      key = sorter.key(part);
    }
    keyed.push_back({std::move(key), std::move(item)});
  }
  return keyed;
}

Result<void> sort_keyed(std::vector<Keyed>& keyed, Sorter& sorter, bool is_reversed) {
  std::ranges::stable_sort(keyed, [&](const Keyed& a, const Keyed& b) {
    return is_reversed ? sorter.is_less(b.key, a.key) : sorter.is_less(a.key, b.key);
  });
  return sorter.status();
}

std::vector<Value> values_of(std::vector<Keyed> keyed) {
  std::vector<Value> values;
  values.reserve(keyed.size());
  for (Keyed& item : keyed) values.push_back(std::move(item.value));
  return values;
}

Result<Value> filter_sort(Context& context, const Value& self, const Bound& args) {
  Sorter sorter(context, args.truth_or(1, false));
  T9_TRY(keyed, keyed_items(context, self, args[2], sorter));
  T9_TRY_VOID(sort_keyed(keyed, sorter, args.truth_or(0, false)));
  return context.list(values_of(std::move(keyed)));
}

Result<Value> filter_dictsort(Context& context, const Value& self, const Bound& args) {
  if (!self.is_dict()) return filter_error(fmt::format("dictsort needs a mapping, not '{}'", type_name(self)));
  T9_TRY(by, args.text_or(1, "key"));
  if (by != "key" && by != "value") return filter_error("You can only sort by either \"key\" or \"value\"");
  Sorter sorter(context, args.truth_or(0, false));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : self.dict()->entries())
    keyed.push_back({sorter.key(by == "key" ? key : value), context.tuple({key, value})});
  T9_TRY_VOID(sort_keyed(keyed, sorter, args.truth_or(2, false)));
  return context.list(values_of(std::move(keyed)));
}

Result<Value> filter_unique(Context& context, const Value& self, const Bound& args) {
  const Sorter sorter(context, args.truth_or(0, false));
  T9_TRY(keyed, keyed_items(context, self, args[1], sorter));
  auto seen = context.dict();
  std::vector<Value> result;
  for (Keyed& item : keyed) {
    if (!is_hashable(item.key)) return filter_error(fmt::format("unhashable type: '{}'", type_name(item.key)));
    if (seen->find(item.key)) continue;
    seen->set(std::move(item.key), true);
    result.push_back(std::move(item.value));
  }
  return context.generator(std::move(result));
}

template <bool kIsMax>
Result<Value> filter_extreme(Context& context, const Value& self, const Bound& args) {
  Sorter sorter(context, args.truth_or(0, false));
  T9_TRY(keyed, keyed_items(context, self, args[1], sorter));
  if (keyed.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i)
    if (kIsMax ? sorter.is_less(keyed[best].key, keyed[i].key) : sorter.is_less(keyed[i].key, keyed[best].key))
      best = i;
  T9_TRY_VOID(sorter.status());
  return keyed[best].value;
}

Result<Value> filter_groupby(Context& context, const Value& self, const Bound& args) {
  Sorter sorter(context, args.truth_or(2, false));
  T9_TRY(items, iterate(context, self));
  struct Member {
    Value key;        // compared
    Value group_key;  // shown
    Value value;
  };
  std::vector<Member> members;
  for (Value& item : items) {
    T9_TRY(key, get_path(context, item, *args[0], args[1]));
    members.push_back({sorter.key(key), key, std::move(item)});
  }
  std::ranges::stable_sort(members, [&](const Member& a, const Member& b) { return sorter.is_less(a.key, b.key); });
  T9_TRY_VOID(sorter.status());
  std::vector<Value> groups;
  for (size_t begin = 0; begin < members.size();) {
    std::vector<Value> group;
    size_t end = begin;
    for (; end < members.size() && is_equal(members[begin].key, members[end].key, context.meter()); ++end)
      group.push_back(members[end].value);
    if (end == begin) ++end;  // a key that is not equal to itself
    groups.push_back(context.tuple({members[begin].group_key, context.list(std::move(group))}));
    begin = end;
  }
  return context.list(std::move(groups));
}

Result<Value> filter_sum(Context& context, const Value& self, const Bound& args) {
  Value total = argument_or(args, 1, 0);
  T9_TRY(items, iterate(context, self));
  for (const Value& item : items) {
    T9_TRY(value, attribute_of(context, item, args[0]));
    T9_TRY(next, apply_binary(context, BinaryOp::kAdd, total, value));
    total = std::move(next);
  }
  return total;
}

Result<Value> filter_batch(Context& context, const Value& self, const Bound& args) {
  T9_TRY(size, args.integer_or(0, 0));
  if (size < 1 || size > 1'000'000) return filter_error("batch: the size must be between 1 and 1000000");
  T9_TRY(items, iterate(context, self));
  std::vector<Value> batches;
  const auto n = static_cast<size_t>(size);
  for (size_t begin = 0; begin < items.size(); begin += n) {
    const size_t end = std::min(begin + n, items.size());
    std::vector<Value> batch(items.begin() + static_cast<ptrdiff_t>(begin),
                             items.begin() + static_cast<ptrdiff_t>(end));
    if (args[1] && !args[1]->is_none()) batch.resize(n, *args[1]);
    batches.push_back(context.list(std::move(batch)));
  }
  return context.generator(std::move(batches));
}

Result<Value> filter_slice(Context& context, const Value& self, const Bound& args) {
  T9_TRY(count, args.integer_or(0, 0));
  if (count < 1 || count > 100'000) return filter_error("slice: the number must be between 1 and 100000");
  T9_TRY(items, iterate(context, self));
  const size_t n = static_cast<size_t>(count);
  std::vector<Value> slices;
  size_t begin = 0;
  for (size_t i = 0; i < n; ++i) {
    const bool is_longer = i < items.size() % n;
    const size_t end = begin + items.size() / n + (is_longer ? 1 : 0);
    std::vector<Value> slice(items.begin() + static_cast<ptrdiff_t>(begin),
                             items.begin() + static_cast<ptrdiff_t>(end));
    if (args[1] && !args[1]->is_none() && !is_longer) slice.push_back(*args[1]);
    slices.push_back(context.list(std::move(slice)));
    begin = end;
  }
  return context.generator(std::move(slices));
}

Result<Value> filter_attr(Context& context, const Value& self, const Bound& args) {
  T9_TRY(name, args.text_or(0, ""));
  return get_attribute(context, self, name);
}

Result<Value> filter_default(Context&, const Value& self, const Bound& args) {
  const bool is_missing = self.is_undefined() || (args.truth_or(1, false) && !is_true(self));
  if (!is_missing) return self;
  if (args[0]) return *args[0];
  static const Value kEmpty = std::make_shared<const String>(Text(), nullptr);
  return kEmpty;
}

// --- filters that take filters and tests ---

Arguments without_first(const Arguments& all) {
  Arguments rest;
  if (all.positional.size() > 1) rest.positional.assign(all.positional.begin() + 1, all.positional.end());
  rest.named = all.named;
  return rest;
}

Result<Value> map_attribute(Context& context, const std::vector<Value>& items, const Arguments& all) {
  const Value* attribute = nullptr;
  const Value* fallback = nullptr;
  for (const auto& [name, value] : all.named) {
    if (name == "attribute") {
      attribute = &value;
    } else if (name == "default") {
      fallback = &value;
    } else {
      return filter_error(fmt::format("map: unexpected argument '{}'", name));
    }
  }
  if (!attribute) return filter_error("map requires a filter argument");
  std::vector<Value> results;
  for (const Value& item : items) {
    T9_TRY(value, get_path(context, item, *attribute, fallback));
    results.push_back(std::move(value));
  }
  return context.generator(std::move(results));
}

Result<Value> filter_map(Context& context, const Value& self, const Bound& args) {
  const Arguments& all = args.all();
  if (!is_true(self)) return context.generator({});
  T9_TRY(items, iterate(context, self));
  if (all.positional.empty()) return map_attribute(context, items, all);
  if (!all.positional[0].is_string()) return filter_error("map: the name of a filter is needed");
  const Builtin* filter = find_filter(all.positional[0].bytes());
  if (!filter)
    return fail(ErrorCode::kUnsupported, fmt::format("there is no filter named '{}'", all.positional[0].bytes()));
  const Arguments rest = without_first(all);
  std::vector<Value> results;
  for (const Value& item : items) {
    T9_TRY(value, filter->call(context, item, rest));
    results.push_back(std::move(value));
    if (context.meter().exceeded()) return fail(context.meter().error());
  }
  return context.generator(std::move(results));
}

// Keeps the elements for which the test named by the first argument, or else their truth, is `wanted`.
Result<Value> keep_if(Context& context, const Value& self, const Arguments& test_arguments, const Value* attribute,
                      bool wanted) {
  if (!is_true(self)) return context.generator({});
  T9_TRY(items, iterate(context, self));
  const Builtin* test = nullptr;
  if (!test_arguments.positional.empty()) {
    const Value& name = test_arguments.positional[0];
    if (!name.is_string()) return filter_error("the name of a test is needed");
    test = find_test(name.bytes());
    if (!test) return fail(ErrorCode::kUnsupported, fmt::format("there is no test named '{}'", name.bytes()));
  }
  const Arguments rest = without_first(test_arguments);
  std::vector<Value> kept;
  for (Value& item : items) {
    T9_TRY(value, attribute_of(context, item, attribute));
    if (test) {
      T9_TRY(outcome, test->call(context, value, rest));
      value = std::move(outcome);
    }
    if (is_true(value) == wanted) kept.push_back(std::move(item));
    context.meter().step();
    if (context.meter().exceeded()) return fail(context.meter().error());
  }
  return context.generator(std::move(kept));
}

template <bool kWanted>
Result<Value> filter_select(Context& context, const Value& self, const Bound& args) {
  return keep_if(context, self, args.all(), nullptr, kWanted);
}

template <bool kWanted>
Result<Value> filter_select_attribute(Context& context, const Value& self, const Bound& args) {
  if (args.all().positional.empty()) return filter_error("the name of an attribute is needed");
  return keep_if(context, self, without_first(args.all()), &args.all().positional[0], kWanted);
}

constexpr Builtin kFilters[] = {
    {"abs", "", 0, filter_abs},
    {"attr", "name", 1, filter_attr},
    {"batch", "linecount fill_with", 1, filter_batch},
    {"capitalize", "", 0, filter_case<capitalize>},
    {"center", "width", 0, filter_center},
    {"count", "", 0, filter_length},
    {"d", "default_value boolean", 0, filter_default},
    {"default", "default_value boolean", 0, filter_default},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"e", "", 0, filter_escape},
    {"escape", "", 0, filter_escape},
    {"first", "", 0, filter_first},
    {"float", "default", 0, filter_float},
    {"format", "*", 0, filter_format},
    {"from_json", "", 0, filter_from_json},
    {"fromjson", "", 0, filter_from_json},
    {"groupby", "attribute default case_sensitive", 1, filter_groupby},
    {"indent", "width first blank", 0, filter_indent},
    {"int", "default base", 0, filter_int},
    {"items", "", 0, filter_items},
    {"join", "d attribute", 0, filter_join},
    {"last", "", 0, filter_last},
    {"length", "", 0, filter_length},
    {"list", "", 0, filter_list},
    {"lower", "", 0, filter_case<to_lower>},
    {"map", "*", 0, filter_map},
    {"max", "case_sensitive attribute", 0, filter_extreme<true>},
    {"min", "case_sensitive attribute", 0, filter_extreme<false>},
    {"reject", "*", 0, filter_select<false>},
    {"rejectattr", "*", 0, filter_select_attribute<false>},
    {"replace", "old new count", 2, filter_replace},
    {"reverse", "", 0, filter_reverse},
    {"round", "precision method", 0, filter_round},
    {"safe", "", 0, filter_safe},
    {"select", "*", 0, filter_select<true>},
    {"selectattr", "*", 0, filter_select_attribute<true>},
    {"slice", "slices fill_with", 1, filter_slice},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"string", "", 0, filter_string},
    {"sum", "attribute start", 0, filter_sum},
    {"title", "", 0, filter_case<title_case>},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {"trim", "chars", 0, filter_trim},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {"upper", "", 0, filter_case<to_upper>},
    {"wordcount", "", 0, filter_wordcount},
};

}  // namespace

std::span<const Builtin> all_filters() { return kFilters; }

const Builtin* find_filter(std::string_view name) {
  auto it = std::ranges::find(kFilters, name, &Builtin::name);
  return it == std::end(kFilters) ? nullptr : it;
}

}  // namespace tempo9::chat
