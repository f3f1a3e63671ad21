#include "chat/tools/python_literal.h"

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"
#include "chat/tools/json_strings.h"
#include "chat/tools/number_text.h"
#include "chat/tools/text_cursor.h"

namespace tempo9::chat::tools {
namespace {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

// After a failure its state means nothing.
class Reader : public TextCursor {
 public:
  using TextCursor::TextCursor;

  std::string take_name() {
    skip_space();
    size_t n = 0;
    while (n < rest_.size() && (n == 0 ? is_name_start(rest_[0]) : is_name_part(rest_[n]))) ++n;
    std::string name(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return name;
  }
  std::string take_dotted_name() {
    std::string name = take_name();
    while (!name.empty() && rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      const std::string part = take_name();
      if (part.empty()) return {};
      name += "." + part;
    }
    return name;
  }

  bool take_value(std::string& json, int depth) {
    skip_space();
    if (rest_.empty() || depth > kMaxPythonNesting) return false;
    const char c = rest_.front();
    if (c == '[') return take_sequence(json, ']', depth);
    if (c == '(') return take_sequence(json, ')', depth);
    if (c == '{') return take_dict(json, depth);
    if (c == '\'' || c == '"') return take_quoted(json);
    return is_name_start(c) ? take_word(json) : take_number(json);
  }

 private:
  // A parenthesised value alone is no tuple.
  bool take_sequence(std::string& json, char close, int depth) {
    rest_.remove_prefix(1);
    json += '[';
    bool had_comma = false;
    for (size_t n = 0; !take(close); ++n) {
      if (n > 0 && !had_comma) return false;
      if (n > 0) json += ',';
      if (!take_value(json, depth + 1)) return false;
      had_comma = take(',');
      if (close == ')' && n == 0 && !had_comma) return false;
    }
    json += ']';
    return true;
  }

  bool take_dict(std::string& json, int depth) {
    rest_.remove_prefix(1);
    json += '{';
    bool had_comma = true;
    for (size_t n = 0; !take('}'); ++n) {
      if (!had_comma) return false;
      if (n > 0) json += ',';
      skip_space();
      if (!take_quoted(json) || !take(':')) return false;
      json += ':';
      if (!take_value(json, depth + 1)) return false;
      had_comma = take(',');
    }
    json += '}';
    return true;
  }

  bool take_quoted(std::string& json) {
    if (!rest_.starts_with('\'') && !rest_.starts_with('"')) return false;
    std::string_view quote = rest_.substr(0, 1);
    if (rest_.starts_with("'''") || rest_.starts_with("\"\"\"")) quote = rest_.substr(0, 3);
    rest_.remove_prefix(quote.size());
    std::string text;
    while (!rest_.starts_with(quote)) {
      if (rest_.empty()) return false;
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c != '\\') {
        text += c;
      } else if (!take_escape(text)) {
        return false;
      }
    }
    rest_.remove_prefix(quote.size());
    json += quote_json(text);
    return true;
  }

  // Behind the backslash. What is no escape stays as written, as Python has it.
  bool take_escape(std::string& text) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      text += kMeanings[i];
    } else if (c == 'x') {
      return take_code_point(text, 2);
    } else if (c == 'u') {
      return take_code_point(text, 4);
    } else if (c == 'U') {
      return take_code_point(text, 8);
    } else if (c != '\n') {
      text += '\\';
      text += c;
    }
    return true;
  }

  bool take_code_point(std::string& text, size_t n_digits) {
    if (rest_.size() < n_digits) return false;
    uint64_t value = 0;
    for (const char c : rest_.substr(0, n_digits)) {
      const char lower = static_cast<char>(c | 0x20);
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit && (lower < 'a' || lower > 'f')) return false;
      value = value * 16 + static_cast<uint64_t>(is_digit ? c - '0' : lower - 'a' + 10);
    }
    if (value > 0x10FFFF) return false;
    rest_.remove_prefix(n_digits);
    const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
    append_utf8(text, is_surrogate ? kReplacementCharacter : static_cast<char32_t>(value));
    return true;
  }

  bool take_word(std::string& json) {
    const std::string word = take_name();
    if (word == "True" || word == "true") {
      json += "true";
    } else if (word == "False" || word == "false") {
      json += "false";
    } else if (word == "None" || word == "null") {
      json += "null";
    } else {
      return false;
    }
    return true;
  }

  bool take_number(std::string& json) {
    const size_t n = std::min(rest_.find_first_not_of("+-.0123456789eE"), rest_.size());
    const std::string_view number = rest_.substr(0, n);
    if (!parse_decimal(number, NumberSyntax::kJson)) return false;
    json += number;
    rest_.remove_prefix(n);
    return true;
  }
};

std::optional<PythonCall> take_call(Reader& reader) {
  PythonCall call{.name = reader.take_dotted_name(), .arguments = {}};
  if (call.name.empty() || !reader.take('(')) return std::nullopt;
  bool had_comma = true;
  while (!reader.take(')')) {
    std::string name = reader.take_name();
    std::string json;
    if (!had_comma || name.empty() || !reader.take('=') || !reader.take_value(json, 0)) return std::nullopt;
    call.arguments.emplace_back(std::move(name), std::move(json));
    had_comma = reader.take(',');
  }
  return call;
}

// A call that may stand inside print( ).
std::optional<PythonCall> take_printed_call(Reader& reader) {
  Reader inner = reader;
  if (inner.take_name() == "print" && inner.take('(')) {
    auto call = take_call(inner);
    if (call && inner.take(')')) {
      reader = inner;
      return call;
    }
  }
  return take_call(reader);
}

}  // namespace

std::optional<std::string> python_literal_to_json(std::string_view text) {
  Reader reader(text);
  std::string json;
  if (!reader.take_value(json, 0) || !reader.is_at_end()) return std::nullopt;
  return json;
}

std::optional<PythonCall> take_python_call(std::string_view& text) {
  Reader reader(text);
  auto call = take_call(reader);
  if (call) text = reader.rest();
  return call;
}

std::optional<std::vector<PythonCall>> parse_python_call_list(std::string_view text) {
  Reader reader(text);
  if (!reader.take('[')) return std::nullopt;
  std::vector<PythonCall> calls;
  bool had_comma = true;
  while (!reader.take(']')) {
    auto call = had_comma ? take_call(reader) : std::nullopt;
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
    had_comma = reader.take(',');
  }
  if (calls.empty() || !reader.is_at_end()) return std::nullopt;
  return calls;
}

std::optional<std::vector<PythonCall>> parse_python_call_lines(std::string_view text) {
  Reader reader(text);
  std::vector<PythonCall> calls;
  while (!reader.is_at_end()) {
    auto call = take_printed_call(reader);
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
    while (reader.take(';')) {
    }
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

}  // namespace tempo9::chat::tools
