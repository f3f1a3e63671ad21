#include "chat/tools/json_strings.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace tempo9::chat::tools {
namespace {

char short_escape(char c) {
  switch (c) {
    case '"':
    case '\\':
      return c;
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    default:
      return '\0';
  }
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }

std::optional<char32_t> hex4(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  char32_t value = 0;
  for (const char c : text.substr(0, 4)) {
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<char32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<char32_t>(lower - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

bool is_high_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDBFF; }
bool is_low_surrogate(char32_t c) { return c >= 0xDC00 && c <= 0xDFFF; }

// The character of an escape; `rest` begins behind "\u" and is moved past what was read.
std::optional<char32_t> take_unicode_escape(std::string_view& rest) {
  const auto unit = hex4(rest);
  if (!unit) return std::nullopt;
  rest.remove_prefix(4);
  if (is_high_surrogate(*unit) && rest.starts_with("\\u")) {
    const auto low = hex4(rest.substr(2));
    if (low && is_low_surrogate(*low)) {
      rest.remove_prefix(6);
      return 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00);
    }
  }
  return is_high_surrogate(*unit) || is_low_surrogate(*unit) ? kReplacementCharacter : *unit;
}

// `rest` begins behind a backslash. False when no escape stands there.
bool append_unescaped(std::string& out, std::string_view& rest) {
  if (rest.empty()) return false;
  const char c = rest.front();
  rest.remove_prefix(1);
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (c == 'u') {
    const auto character = take_unicode_escape(rest);
    if (character) append_utf8(out, *character);
    return character.has_value();
  }
  const size_t i = kNames.find(c);
  if (i == std::string_view::npos) return false;
  out += kMeanings[i];
  return true;
}

}  // namespace

std::string_view trim_json_space(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    const char escape = short_escape(c);
    if (escape) {
      out += '\\';
      out += escape;
    } else if (is_control(c)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
}

std::string quote_json(std::string_view text) {
  std::string out = "\"";
  append_escaped(out, text);
  out += '"';
  return out;
}

std::optional<std::string> decode_json_string(std::string_view literal) {
  if (literal.size() < 2 || literal.front() != '"') return std::nullopt;
  std::string_view rest = literal.substr(1);
  std::string out;
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '"') return rest.empty() ? std::optional(std::move(out)) : std::nullopt;
    if (c != '\\') {
      out += c;
    } else if (!append_unescaped(out, rest)) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::string escape_controls_in_strings(std::string_view json) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    if (in_string && is_control(c)) {
      append_escaped(out, json.substr(i, 1));
      continue;
    }
    out += c;
    if (in_string && c == '\\' && i + 1 < json.size() && !is_control(json[i + 1])) out += json[++i];
  }
  return out;
}

}  // namespace tempo9::chat::tools
