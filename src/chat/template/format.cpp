#include "chat/template/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace tempo9::chat {
namespace {

constexpr int kMaxWidth = 10'000;

std::unexpected<Error> format_error(std::string message) { return fail(ErrorCode::kInvalidInput, std::move(message)); }

// The part both notations share.
struct Spec {
  std::string fill = " ";
  char align = '\0';  // '<', '>', '^', '=' (padding after the sign)
  char sign = '-';    // '+' or ' ' for what stands before positive numbers
  bool is_alternate = false;
  bool has_commas = false;
  int width = 0;
  int precision = -1;
  char type = 's';
};

// Reads digits at `pos`; -1 when there are none.
Result<int> read_number(std::string_view text, size_t& pos) {
  int value = -1;
  for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
    value = std::max(value, 0) * 10 + (text[pos] - '0');
    if (value > kMaxWidth) return format_error(fmt::format("widths of more than {} are not allowed", kMaxWidth));
  }
  return value;
}

// Splits a finished number into sign and digits, so that padding can go between.
std::string pad(const Spec& spec, std::string sign, std::string body, char default_align) {
  const char align = spec.align ? spec.align : default_align;
  const int64_t missing = spec.width - count_chars(sign) - count_chars(body);
  if (missing <= 0) return sign + body;
  auto fill = [&](int64_t n) {
    std::string text;
    for (; n > 0; --n) text += spec.fill;
    return text;
  };
  switch (align) {
    case '<':
      return sign + body + fill(missing);
    case '^':
      return fill(missing / 2) + sign + body + fill(missing - missing / 2);
    case '=':
      return sign + fill(missing) + body;
    default:
      return fill(missing) + sign + body;
  }
}

std::string sign_text(const Spec& spec, bool is_negative) {
  if (is_negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string with_commas(std::string digits) {
  size_t end = std::min(digits.find_first_of(".e"), digits.size());
  for (; end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

Result<std::string> format_integer(const Spec& spec, int64_t value) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string sign = sign_text(spec, value < 0);
  std::string digits;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      break;
    default:
      digits = fmt::to_string(magnitude);
  }
  if (spec.is_alternate && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b'))
    sign += fmt::format("0{}", spec.type);
  return pad(spec, std::move(sign), spec.has_commas ? with_commas(std::move(digits)) : std::move(digits), '>');
}

Result<std::string> format_float(const Spec& spec, double value) {
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  const double magnitude = std::fabs(value);
  std::string digits;
  switch (spec.type) {
    case 'e':
      digits = fmt::format("{:.{}e}", magnitude, precision);
      break;
    case 'E':
      digits = fmt::format("{:.{}E}", magnitude, precision);
      break;
    case 'g':
      digits = fmt::format("{:.{}g}", magnitude, precision);
      break;
    case 'G':
      digits = fmt::format("{:.{}G}", magnitude, precision);
      break;
    case '%':
      digits = fmt::format("{:.{}f}%", magnitude * 100, precision);
      break;
    default:
      digits = fmt::format("{:.{}f}", magnitude, precision);
  }
  return pad(spec, sign_text(spec, std::signbit(value)),
             spec.has_commas ? with_commas(std::move(digits)) : std::move(digits), '>');
}

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

Result<std::string> format_number(const Spec& spec, const Value& value) {
  if (!value.is_number())
    return format_error(fmt::format("format '{}' needs a number, not '{}'", spec.type, type_name(value)));
  if (!is_one_of(spec.type, "diouxXb")) return format_float(spec, value.number());
  if (value.is_integral()) return format_integer(spec, value.integer());
  if (!(std::fabs(value.number()) < 9.2e18)) return format_error("the number is too large for an integer format");
  return format_integer(spec, static_cast<int64_t>(value.number()));
}

std::string format_text(const Spec& spec, std::string text, char default_align) {
  if (spec.precision >= 0) text.resize(char_offset(text, spec.precision));
  return pad(spec, "", std::move(text), default_align);
}

// --- % ---

// Flags, width, precision and type after the % and the name.
Result<Spec> read_percent_spec(std::string_view text, size_t& pos) {
  Spec spec;
  for (; pos < text.size() && is_one_of(text[pos], "-+ 0#"); ++pos) {
    switch (text[pos]) {
      case '-':
        spec.align = '<';
        break;
      case '+':
        spec.sign = '+';
        break;
      case ' ':
        if (spec.sign != '+') spec.sign = ' ';
        break;
      case '#':
        spec.is_alternate = true;
        break;
      default:
        if (spec.align != '<') {
          spec.align = '=';
          spec.fill = "0";
        }
    }
  }
  if (spec.align == '<') spec.fill = " ";
  T9_TRY(width, read_number(text, pos));
  spec.width = std::max(width, 0);
  if (pos < text.size() && text[pos] == '.') {
    ++pos;
    T9_TRY(precision, read_number(text, pos));
    spec.precision = std::max(precision, 0);
  }
  if (pos >= text.size()) return format_error("incomplete format");
  spec.type = text[pos++];
  return spec;
}

Result<void> append_percent(Context& context, Spec spec, const Value& value, Text& out) {
  if (spec.type == 's' && spec.width == 0 && spec.precision < 0) {
    out.append(to_text(value, context.meter()));
    return {};
  }
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    if (spec.align == '=') spec.align = '>', spec.fill = " ";
    std::string text;
    if (spec.type == 's') {
      text = to_text(value, context.meter()).bytes;
    } else {
      append_repr(value, context.meter(), text);
    }
    out.append_untrusted(format_text(spec, std::move(text), '>'));
    return {};
  }
  if (spec.type == 'c' && value.is_string()) {
    out.append(value.text());
    return {};
  }
  if (!is_one_of(spec.type, "diouxXeEfFgG"))
    return format_error(fmt::format("unsupported format character '{}'", spec.type));
  T9_TRY(text, format_number(spec, value));
  out.append_untrusted(text);
  return {};
}

// --- {} ---

// [[fill]align][sign][#][0][width][,][.precision][type]
Result<Spec> read_brace_spec(std::string_view text) {
  Spec spec;
  spec.type = '\0';
  size_t pos = 0;
  const size_t fill = char_offset(text, 1);
  if (fill < text.size() && is_one_of(text[fill], "<>^=")) {
    spec.fill = std::string(text.substr(0, fill));
    spec.align = text[fill];
    pos = fill + 1;
  } else if (!text.empty() && is_one_of(text[0], "<>^=")) {
    spec.align = text[pos++];
  }
  if (pos < text.size() && is_one_of(text[pos], "+- ")) spec.sign = text[pos++];
  if (pos < text.size() && text[pos] == '#') spec.is_alternate = true, ++pos;
  if (pos < text.size() && text[pos] == '0') {
    if (!spec.align) spec.align = '=', spec.fill = "0";
    ++pos;
  }
  T9_TRY(width, read_number(text, pos));
  spec.width = std::max(width, 0);
  if (pos < text.size() && text[pos] == ',') spec.has_commas = true, ++pos;
  if (pos < text.size() && text[pos] == '.') {
    ++pos;
    T9_TRY(precision, read_number(text, pos));
    if (precision < 0) return format_error("the format specification lacks its precision");
    spec.precision = precision;
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos != text.size() || (spec.type && !is_one_of(spec.type, "sdbxXoeEfFgG%")))
    return format_error(fmt::format("invalid format specification '{}'", text));
  return spec;
}

Result<void> append_braces(Context& context, std::string_view spec_text, const Value& value, Text& out) {
  if (spec_text.empty()) {
    out.append(to_text(value, context.meter()));
    return {};
  }
  T9_TRY(spec, read_brace_spec(spec_text));
  if (value.is_number() && !value.is<bool>() && spec.type != 's') {
    if (!spec.type && value.is<double>() && spec.precision < 0) {
      const double number = value.number();
      out.append_untrusted(pad(spec, sign_text(spec, std::signbit(number)), float_repr(std::fabs(number)), '>'));
      return {};
    }
    if (!spec.type) spec.type = value.is<double>() ? 'g' : 'd';
    T9_TRY(text, format_number(spec, value));
    out.append_untrusted(text);
    return {};
  }
  if (spec.type && spec.type != 's')
    return format_error(fmt::format("format '{}' needs a number, not '{}'", spec.type, type_name(value)));
  out.append_untrusted(format_text(spec, to_text(value, context.meter()).bytes, '<'));
  return {};
}

Result<const Value*> find_field(std::string_view field, size_t& next_index, const Arguments& arguments) {
  size_t index = 0;
  auto [stop, status] = std::from_chars(field.data(), field.data() + field.size(), index);
  const bool is_index = !field.empty() && status == std::errc() && stop == field.data() + field.size();
  if (field.empty()) index = next_index++;
  if (field.empty() || is_index) {
    if (index >= arguments.positional.size())
      return format_error(fmt::format("format has no argument number {}", index));
    return &arguments.positional[index];
  }
  for (const auto& [name, value] : arguments.named)
    if (name == field) return &value;
  return format_error(fmt::format("format has no argument '{}'", field));
}

}  // namespace

Result<Value> format_percent(Context& context, const Value& pattern, const Value& values) {
  const Text& text = pattern.text();
  const std::string_view bytes = text.bytes;
  const bool is_tuple = values.is_list() && values.list()->kind == SequenceKind::kTuple;
  const size_t n_values = is_tuple ? values.items().size() : 1;
  size_t n_used = 0;
  bool used_name = false;
  Text out;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t percent = std::min(bytes.find('%', pos), bytes.size());
    out.append_slice(text, pos, percent);
    if (!context.meter().can_hold(out.size())) return fail(context.meter().error());
    pos = percent + 1;
    if (percent == bytes.size()) break;
    if (pos < bytes.size() && bytes[pos] == '%') {
      out.append_slice(text, pos, pos + 1);
      ++pos;
      continue;
    }
    const Value* value = nullptr;
    if (pos < bytes.size() && bytes[pos] == '(') {
      const size_t end = bytes.find(')', pos);
      if (end == std::string_view::npos) return format_error("incomplete format key");
      if (!values.is_dict()) return format_error("format requires a mapping");
      value = values.dict()->find(bytes.substr(pos + 1, end - pos - 1));
      if (!value) return format_error(fmt::format("format has no key '{}'", bytes.substr(pos + 1, end - pos - 1)));
      used_name = true;
      pos = end + 1;
    }
    T9_TRY(spec, read_percent_spec(bytes, pos));
    if (!value) {
      if (n_used == n_values) return format_error("not enough arguments for format string");
      value = is_tuple ? &values.items()[n_used] : &values;
      ++n_used;
    }
    T9_TRY_VOID(append_percent(context, spec, *value, out));
    context.meter().step();
  }
  if (n_used < n_values && !used_name && !values.is_dict())
    return format_error("not all arguments converted during string formatting");
  return context.string(std::move(out));
}

Result<Value> format_braces(Context& context, const Value& pattern, const Arguments& arguments) {
  const Text& text = pattern.text();
  const std::string_view bytes = text.bytes;
  size_t next_index = 0;
  Text out;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", pos), bytes.size());
    out.append_slice(text, pos, brace);
    if (!context.meter().can_hold(out.size())) return fail(context.meter().error());
    pos = brace + 1;
    if (brace == bytes.size()) break;
    if (pos < bytes.size() && bytes[pos] == bytes[brace]) {
      out.append_slice(text, pos, pos + 1);
      ++pos;
      continue;
    }
    const size_t end = bytes.find('}', pos);
    if (bytes[brace] == '}' || end == std::string_view::npos) return format_error("single brace in format string");
    const std::string_view field = bytes.substr(pos, end - pos);
    const size_t colon = std::min(field.find(':'), field.size());
    T9_TRY(value, find_field(field.substr(0, colon), next_index, arguments));
    T9_TRY_VOID(append_braces(context, field.substr(std::min(colon + 1, field.size())), *value, out));
    context.meter().step();
    pos = end + 1;
  }
  return context.string(std::move(out));
}

}  // namespace tempo9::chat
