// The methods of strings, lists, dicts and loops. The tables are at the end.
#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"
#include "chat/template/builtin.h"
#include "chat/template/format.h"
#include "chat/template/operators.h"
#include "chat/template/strings.h"

namespace tempo9::chat {
namespace {

std::unexpected<Error> method_error(std::string message) { return fail(ErrorCode::kInvalidInput, std::move(message)); }

// --- strings ---

Value string_list(Context& context, std::vector<Text> texts) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (Text& text : texts) items.push_back(context.string(std::move(text)));
  context.meter().step(static_cast<int64_t>(items.size()));
  return context.list(std::move(items));
}

Value changed_case(Context& context, const Text& text, std::string (*change)(std::string_view)) {
  context.meter().step_bytes(text.size() * 8);
  std::string bytes = change(text.bytes);
  return context.string(text.all_trusted() ? Text::from_template(std::move(bytes))
                                           : Text::from_outside(std::move(bytes)));
}

template <std::string (*kChange)(std::string_view)>
Result<Value> string_case(Context& context, const Value& self, const Bound&) {
  return changed_case(context, self.text(), kChange);
}

// Words are runs of letters, as in Python's str.title.
std::string title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = decode_utf8(text, pos);
    const std::string_view character = text.substr(begin, pos - begin);
    out += in_word ? to_lower(character) : to_upper(character);
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    in_word = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT;
  }
  return out;
}

template <bool kLeft, bool kRight>
Result<Value> string_strip(Context& context, const Value& self, const Bound& args) {
  context.meter().step_bytes(self.bytes().size());
  std::pair<size_t, size_t> range;
  if (!args[0] || args[0]->is_none()) {
    range = strip_space(self.bytes(), kLeft, kRight);
  } else {
    T9_TRY(chars, args.text_or(0, ""));
    range = strip_chars(self.bytes(), chars, kLeft, kRight);
  }
  return context.string(self.text().slice(range.first, range.second));
}

template <bool kFromRight>
Result<Value> string_split(Context& context, const Value& self, const Bound& args) {
  T9_TRY(limit, args.integer_or(1, -1));
  context.meter().step_bytes(self.bytes().size());
  if (!args[0] || args[0]->is_none()) {
    if (kFromRight && limit >= 0) return method_error("rsplit: white space with a limit is not supported");
    return string_list(context, split_space(self.text(), limit));
  }
  T9_TRY(separator, args.text_or(0, ""));
  if (separator.empty()) return method_error("empty separator");
  return string_list(context, kFromRight ? split_at_from_right(self.text(), separator, limit)
                                         : split_at(self.text(), separator, limit));
}

Result<Value> string_splitlines(Context& context, const Value& self, const Bound& args) {
  context.meter().step_bytes(self.bytes().size());
  return string_list(context, split_lines(self.text(), args.truth_or(0, false)));
}

template <bool kFromRight>
Result<Value> string_partition(Context& context, const Value& self, const Bound& args) {
  T9_TRY(separator, args.text_or(0, ""));
  if (separator.empty()) return method_error("empty separator");
  context.meter().step_bytes(self.bytes().size());
  const Text& text = self.text();
  const size_t found = kFromRight ? text.bytes.rfind(separator) : text.bytes.find(separator);
  const Value empty = context.string(Text());
  if (found == std::string::npos) {
    if (kFromRight) return context.tuple({empty, empty, self});
    return context.tuple({self, empty, empty});
  }
  const size_t end = found + separator.size();
  return context.tuple({context.string(text.slice(0, found)), context.string(text.slice(found, end)),
                        context.string(text.slice(end, text.size()))});
}

// A string, or a tuple of them, any of which will do.
template <bool kAtEnd>
Result<Value> string_begins(Context& context, const Value& self, const Bound& args) {
  std::vector<Value> options = {*args[0]};
  if (args[0]->is_list() && args[0]->list()->kind == SequenceKind::kTuple) options = args[0]->items();
  for (const Value& option : options) {
    context.meter().step();
    if (!option.is_string())
      return method_error(fmt::format("a str or a tuple of str is needed, not '{}'", type_name(option)));
    if (kAtEnd ? self.bytes().ends_with(option.bytes()) : self.bytes().starts_with(option.bytes())) return true;
  }
  return false;
}

template <bool kAtEnd>
Result<Value> string_remove(Context& context, const Value& self, const Bound& args) {
  T9_TRY(part, args.text_or(0, ""));
  const Text& text = self.text();
  if (kAtEnd && self.bytes().ends_with(part)) return context.string(text.slice(0, text.size() - part.size()));
  if (!kAtEnd && self.bytes().starts_with(part)) return context.string(text.slice(part.size(), text.size()));
  return self;
}

Result<Value> string_replace(Context& context, const Value& self, const Bound& args) {
  T9_TRY_VOID(args.text_or(0, ""));
  T9_TRY_VOID(args.text_or(1, ""));
  T9_TRY(limit, args.integer_or(2, -1));
  T9_TRY(text, replace(context, self.text(), args[0]->text(), args[1]->text(), limit));
  return context.string(std::move(text));
}

template <bool kFromRight>
Result<int64_t> find_in(Context& context, const Value& self, const Bound& args) {
  T9_TRY(part, args.text_or(0, ""));
  T9_TRY(start, args.integer_or(1, 0));
  context.meter().step_bytes(self.bytes().size());
  const std::string_view text = self.bytes();
  if (start < 0) start = std::max<int64_t>(start + count_chars(text), 0);
  if (start > count_chars(text)) return -1;
  const size_t begin = char_offset(text, start);
  const size_t found = kFromRight ? text.rfind(part) : text.find(part, begin);
  if (found == std::string_view::npos || found < begin) return -1;
  return count_chars(text.substr(0, found));
}

template <bool kFromRight>
Result<Value> string_find(Context& context, const Value& self, const Bound& args) {
  T9_TRY(index, find_in<kFromRight>(context, self, args));
  return index;
}

Result<Value> string_index(Context& context, const Value& self, const Bound& args) {
  T9_TRY(index, find_in<false>(context, self, args));
  if (index < 0) return method_error("substring not found");
  return index;
}

Result<Value> string_count(Context& context, const Value& self, const Bound& args) {
  T9_TRY(part, args.text_or(0, ""));
  context.meter().step_bytes(self.bytes().size());
  if (part.empty()) return count_chars(self.bytes()) + 1;
  int64_t n = 0;
  for (size_t pos = self.bytes().find(part); pos != std::string_view::npos;
       pos = self.bytes().find(part, pos + part.size()))
    ++n;
  return n;
}

Result<Value> string_join(Context& context, const Value& self, const Bound& args) {
  T9_TRY(items, iterate(context, *args[0]));
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string())
      return method_error(fmt::format("sequence item {}: expected str instance, {} found", i, type_name(items[i])));
    if (i > 0) out.append(self.text());
    out.append(items[i].text());
    if (!context.meter().can_hold(out.size())) return fail(context.meter().error());
  }
  context.meter().step_bytes(out.size());
  return context.string(std::move(out));
}

Result<Value> string_format(Context& context, const Value& self, const Bound& args) {
  return format_braces(context, self, args.all());
}

bool is_digit(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND; }

bool is_letter(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_letter_or_digit(char32_t c) { return is_letter(c) || is_digit(c); }

// Whether there are characters, and all are of the kind.
template <bool (*kIs)(char32_t)>
Result<Value> string_is(Context& context, const Value& self, const Bound&) {
  context.meter().step_bytes(self.bytes().size());
  for (size_t pos = 0; pos < self.bytes().size();)
    if (!kIs(decode_utf8(self.bytes(), pos))) return false;
  return !self.bytes().empty();
}

template <std::string (*kChange)(std::string_view), std::string (*kOpposite)(std::string_view)>
Result<Value> string_is_case(Context& context, const Value& self, const Bound&) {
  context.meter().step_bytes(self.bytes().size() * 16);
  return kChange(self.bytes()) == self.bytes() && kOpposite(self.bytes()) != self.bytes();
}

// --- lists ---

// Unlike in the reference's sandbox, lists may change: they belong to this rendering alone.
Result<Value> list_append(Context& context, const Value& self, const Bound& args) {
  context.append(self.list(), *args[0]);
  return None();
}

Result<Value> list_pop(Context&, const Value& self, const Bound& args) {
  std::vector<Value>& items = self.list()->items;
  T9_TRY(given, args.integer_or(0, -1));
  const auto n = static_cast<int64_t>(items.size());
  const int64_t index = given < 0 ? given + n : given;
  if (index < 0 || index >= n) return method_error(n == 0 ? "pop from empty list" : "pop index out of range");
  Value item = items[static_cast<size_t>(index)];
  items.erase(items.begin() + index);
  return item;
}

Result<Value> list_index(Context& context, const Value& self, const Bound& args) {
  const std::vector<Value>& items = self.items();
  for (size_t i = 0; i < items.size(); ++i)
    if (is_equal(items[i], *args[0], context.meter())) return static_cast<int64_t>(i);
  return method_error("the value is not in the list");
}

Result<Value> list_count(Context& context, const Value& self, const Bound& args) {
  return static_cast<int64_t>(std::ranges::count_if(
      self.items(), [&](const Value& item) { return is_equal(item, *args[0], context.meter()); }));
}

// --- dicts ---

Result<Value> dict_get(Context&, const Value& self, const Bound& args) {
  if (!is_hashable(*args[0])) return method_error(fmt::format("unhashable type: '{}'", type_name(*args[0])));
  if (const Value* value = self.dict()->find(*args[0])) return *value;
  return args[1] ? *args[1] : Value(None());
}

template <SequenceKind kKind>
Result<Value> dict_view(Context& context, const Value& self, const Bound&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries()) {
    if constexpr (kKind == SequenceKind::kKeysView) {
      items.push_back(key);
    } else if constexpr (kKind == SequenceKind::kValuesView) {
      items.push_back(value);
    } else {
      items.push_back(context.tuple({key, value}));
    }
  }
  context.meter().step(static_cast<int64_t>(items.size()));
  return context.list(std::move(items), kKind);
}

// --- loops ---

Result<Value> loop_cycle(Context&, const Value& self, const Bound& args) {
  const std::vector<Value>& values = args.all().positional;
  if (values.empty()) return method_error("no items for cycling given");
  return values[static_cast<size_t>(self.get<std::shared_ptr<Loop>>()->index0) % values.size()];
}

constexpr Builtin kStringMethods[] = {
    {"capitalize", "", 0, string_case<capitalize>},
    {"count", "sub", 1, string_count},
    {"endswith", "suffix", 1, string_begins<true>},
    {"find", "sub start", 1, string_find<false>},
    {"format", "*", 0, string_format},
    {"index", "sub start", 1, string_index},
    {"isalnum", "", 0, string_is<is_letter_or_digit>},
    {"isalpha", "", 0, string_is<is_letter>},
    {"isdigit", "", 0, string_is<is_digit>},
    {"islower", "", 0, string_is_case<to_lower, to_upper>},
    {"isspace", "", 0, string_is<is_space>},
    {"isupper", "", 0, string_is_case<to_upper, to_lower>},
    {"join", "iterable", 1, string_join},
    {"lower", "", 0, string_case<to_lower>},
    {"lstrip", "chars", 0, string_strip<true, false>},
    {"partition", "sep", 1, string_partition<false>},
    {"removeprefix", "prefix", 1, string_remove<false>},
    {"removesuffix", "suffix", 1, string_remove<true>},
    {"replace", "old new count", 2, string_replace},
    {"rfind", "sub start", 1, string_find<true>},
    {"rpartition", "sep", 1, string_partition<true>},
    {"rsplit", "sep maxsplit", 0, string_split<true>},
    {"rstrip", "chars", 0, string_strip<false, true>},
    {"split", "sep maxsplit", 0, string_split<false>},
    {"splitlines", "keepends", 0, string_splitlines},
    {"startswith", "prefix", 1, string_begins<false>},
    {"strip", "chars", 0, string_strip<true, true>},
    {"title", "", 0, string_case<title>},
    {"upper", "", 0, string_case<to_upper>},
};

constexpr Builtin kListMethods[] = {
    {"append", "object", 1, list_append},
    {"count", "value", 1, list_count},
    {"index", "value", 1, list_index},
    {"pop", "index", 0, list_pop},
};

constexpr Builtin kTupleMethods[] = {
    {"count", "value", 1, list_count},
    {"index", "value", 1, list_index},
};

constexpr Builtin kDictMethods[] = {
    {"get", "key default", 1, dict_get},
    {"items", "", 0, dict_view<SequenceKind::kItemsView>},
    {"keys", "", 0, dict_view<SequenceKind::kKeysView>},
    {"values", "", 0, dict_view<SequenceKind::kValuesView>},
};

constexpr Builtin kLoopMethods[] = {
    {"cycle", "*", 0, loop_cycle},
};

std::span<const Builtin> methods_of(const Value& self) {
  if (self.is_string()) return kStringMethods;
  if (self.is_dict()) return kDictMethods;
  if (self.is_list() && self.list()->kind == SequenceKind::kList) return kListMethods;
  if (self.is_list() && self.list()->kind == SequenceKind::kTuple) return kTupleMethods;
  if (self.is<std::shared_ptr<Loop>>()) return kLoopMethods;
  return {};
}

}  // namespace

const Builtin* find_method(const Value& self, std::string_view name) {
  const std::span<const Builtin> methods = methods_of(self);
  auto it = std::ranges::find(methods, name, &Builtin::name);
  return it == methods.end() ? nullptr : &*it;
}

}  // namespace tempo9::chat
