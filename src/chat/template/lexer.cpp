#include "chat/template/lexer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/utf8.h"
#include "chat/template/text.h"

namespace tempo9::chat {
namespace {

// All line ends become \n, and one at the very end goes: both before anything else is looked at.
std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name_char(char32_t c) {
  if (c < 0x80) return c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO;
}

// Two-character operators first.
constexpr std::array<std::string_view, 27> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";", "!"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> run() {
    while (pos_ < source_.size()) T9_TRY_VOID(lex_root());
    tokens_.push_back({.kind = TokenKind::kEnd, .position = position(), .text = {}});
    return std::move(tokens_);
  }

 private:
  // --- positions ---

  // Where `pos_` is. Only ever asked for increasing positions, so the source is walked once.
  Position position() {
    for (; counted_ < pos_; ++counted_) {
      const auto c = static_cast<uint8_t>(source_[counted_]);
      if (c == '\n') {
        ++here_.line;
        here_.column = 1;
      } else if ((c & 0xC0) != 0x80) {
        ++here_.column;
      }
    }
    return here_;
  }

  std::unexpected<Error> error(std::string message) {
    return fail(at_position(position(), Error(ErrorCode::kInvalidInput, std::move(message))));
  }

  std::string_view rest() const { return source_.substr(pos_); }
  bool at(std::string_view text) const { return rest().starts_with(text); }

  void skip_space() { pos_ += strip_space(rest(), true, false).first; }

  // --- text between tags ---

  Result<void> lex_root() {
    const size_t tag = find_tag();
    if (tag == std::string_view::npos) {
      add_data(source_.size());
      pos_ = source_.size();
      return {};
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    add_data(strip_data_end(tag, sign, kind != '{'));
    pos_ = tag;
    if (kind == '#') return skip_comment();
    if (kind == '%' && is_raw_begin()) return lex_raw();
    return lex_tag(kind == '%' ? "%}" : "}}");
  }

  size_t find_tag() const {
    for (size_t i = source_.find('{', pos_); i != std::string_view::npos; i = source_.find('{', i + 1)) {
      if (i + 1 >= source_.size()) break;
      const char next = source_[i + 1];
      if (next == '%' || next == '{' || next == '#') return i;
    }
    return std::string_view::npos;
  }

  void add_data(size_t end) {
    if (end <= pos_) return;
    tokens_.push_back(
        {.kind = TokenKind::kData, .position = position(), .text = std::string(source_.substr(pos_, end - pos_))});
  }

  // Where the data that starts at `pos_` ends when a tag with this sign follows at `tag`.
  size_t strip_data_end(size_t tag, char sign, bool strips_blanks) const {
    const std::string_view data = source_.substr(pos_, tag - pos_);
    if (sign == '-') return pos_ + strip_space(data, false, true).second;
    if (sign == '+' || !strips_blanks) return tag;
    const size_t line = data.rfind('\n') == std::string_view::npos ? 0 : data.rfind('\n') + 1;
    if (line == 0 && !at_line_start_) return tag;
    const std::string_view before_tag = data.substr(line);
    return strip_space(before_tag).first == before_tag.size() ? pos_ + line : tag;
  }

  // After the tag's closing mark: `-` takes all white space, otherwise blocks and comments take one newline.
  void end_tag(char sign, bool trims_newline) {
    const size_t begin = pos_;
    if (sign == '-') {
      skip_space();
    } else if (trims_newline && sign != '+' && at("\n")) {
      ++pos_;
    }
    at_line_start_ = pos_ > begin && source_[pos_ - 1] == '\n';
  }

  Result<void> skip_comment() {
    const size_t end = source_.find("#}", pos_ + 2);
    if (end == std::string_view::npos) return error("the comment has no end");
    const char sign = end > pos_ + 2 ? source_[end - 1] : '\0';
    pos_ = end + 2;
    end_tag(sign, true);
    return {};
  }

  // --- raw blocks ---

  // Matches {% NAME %} at `begin`; the offset of its end, or 0. `end_sign` is the sign before %}.
  size_t match_simple_tag(size_t begin, std::string_view name, char& end_sign) const {
    size_t i = begin + 2;
    if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
    i += strip_space(source_.substr(i), true, false).first;
    if (!source_.substr(i).starts_with(name)) return 0;
    i += name.size();
    i += strip_space(source_.substr(i), true, false).first;
    end_sign = '\0';
    if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) end_sign = source_[i++];
    return source_.substr(i).starts_with("%}") ? i + 2 : 0;
  }

  bool is_raw_begin() const {
    char sign = '\0';
    return match_simple_tag(pos_, "raw", sign) != 0;
  }

  Result<void> lex_raw() {
    char sign = '\0';
    const Position begin = position();
    pos_ = match_simple_tag(pos_, "raw", sign);
    end_tag(sign, false);
    for (size_t i = source_.find("{%", pos_); i != std::string_view::npos; i = source_.find("{%", i + 2)) {
      const size_t end = match_simple_tag(i, "endraw", sign);
      if (end == 0) continue;
      add_data(strip_data_end(i, source_[i + 2], true));
      pos_ = end;
      end_tag(sign, true);
      return {};
    }
    return fail(at_position(begin, Error(ErrorCode::kInvalidInput, "the raw block has no end")));
  }

  // --- inside tags ---

  Result<void> lex_tag(std::string_view close) {
    const bool is_block = close == "%}";
    tokens_.push_back(
        {.kind = is_block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, .position = position(), .text = {}});
    pos_ += 2;
    if (at("-") || at("+")) ++pos_;
    brackets_.clear();
    for (;;) {
      skip_space();
      if (pos_ >= source_.size()) return error(fmt::format("the tag has no end: '{}' expected", close));
      const char sign = source_[pos_] == '-' || (is_block && source_[pos_] == '+') ? source_[pos_] : '\0';
      if (brackets_.empty() && source_.substr(pos_ + (sign ? 1 : 0)).starts_with(close)) {
        tokens_.push_back(
            {.kind = is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, .position = position(), .text = {}});
        pos_ += (sign ? 1 : 0) + 2;
        end_tag(sign, is_block);
        return {};
      }
      T9_TRY_VOID(lex_token());
    }
  }

  Result<void> lex_token() {
    const char c = source_[pos_];
    if (is_digit(c)) return lex_number();
    if (c == '\'' || c == '"') return lex_string();
    size_t end = pos_;
    while (end < source_.size()) {
      size_t next = end;
      if (!is_name_char(decode_utf8(source_, next))) break;
      end = next;
    }
    if (end > pos_) return add_token(TokenKind::kName, end);
    return lex_operator();
  }

  Result<void> add_token(TokenKind kind, size_t end) {
    tokens_.push_back({.kind = kind, .position = position(), .text = std::string(source_.substr(pos_, end - pos_))});
    pos_ = end;
    return {};
  }

  Result<void> lex_operator() {
    auto op = std::ranges::find_if(kOperators, [&](std::string_view text) { return at(text); });
    if (op == kOperators.end() || *op == "!") return error(fmt::format("unexpected character '{}'", next_char()));
    if (*op == "(" || *op == "[" || *op == "{") brackets_.push_back((*op)[0]);
    if (*op == ")" || *op == "]" || *op == "}") {
      const char opening = *op == ")" ? '(' : *op == "]" ? '[' : '{';
      if (brackets_.empty() || brackets_.back() != opening) return error(fmt::format("unexpected '{}'", *op));
      brackets_.pop_back();
    }
    return add_token(TokenKind::kOperator, pos_ + op->size());
  }

  std::string next_char() const {
    size_t end = pos_;
    std::string text;
    append_utf8(text, decode_utf8(source_, end));
    return text;
  }

  // Digits with single underscores between them, from `i` on; the offset after them.
  size_t skip_digits(size_t i, bool (*is_wanted)(char)) const {
    while (i < source_.size() &&
           (is_wanted(source_[i]) || (source_[i] == '_' && i + 1 < source_.size() && is_wanted(source_[i + 1]))))
      ++i;
    return i;
  }

  Result<void> lex_number() {
    static constexpr std::pair<char, int> kPrefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
    for (auto [letter, base] : kPrefixes) {
      if (!at("0") || pos_ + 1 >= source_.size() || (source_[pos_ + 1] | 0x20) != letter) continue;
      const size_t end =
          skip_digits(pos_ + 2, [](char c) { return is_name_char(static_cast<uint8_t>(c)) && c != '_'; });
      return add_integer(pos_ + 2, end, base);
    }
    size_t end = skip_digits(pos_, is_digit);
    bool is_float = false;
    // After a dot, as in a.0.5, a number is an index and takes no fraction.
    const bool is_index = pos_ > 0 && source_[pos_ - 1] == '.';
    if (!is_index && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      is_float = true;
      end = skip_digits(end + 1, is_digit);
    }
    if (!is_index && end < source_.size() && (source_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        is_float = true;
        end = skip_digits(exponent, is_digit);
      }
    }
    return is_float ? add_float(end) : add_integer(pos_, end, 10);
  }

  std::string number_text(size_t begin, size_t end) const {
    std::string text(source_.substr(begin, end - begin));
    std::erase(text, '_');
    return text;
  }

  Result<void> add_integer(size_t begin, size_t end, int base) {
    const std::string digits = number_text(begin, end);
    int64_t value = 0;
    auto [stop, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (status != std::errc() || stop != digits.data() + digits.size())
      return error(fmt::format("'{}' is not a number of 64 bits", source_.substr(pos_, end - pos_)));
    T9_TRY_VOID(add_token(TokenKind::kInteger, end));
    tokens_.back().integer = value;
    return {};
  }

  Result<void> add_float(size_t end) {
    const std::string digits = number_text(pos_, end);
    double value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    T9_TRY_VOID(add_token(TokenKind::kFloat, end));
    tokens_.back().number = value;
    return {};
  }

  Result<void> lex_string() {
    const char quote = source_[pos_];
    Token token{.kind = TokenKind::kString, .position = position(), .text = {}};
    size_t i = pos_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] != '\\') {
        token.text += source_[i++];
        continue;
      }
      if (!append_escape(i, token.text)) {
        pos_ = i;
        return error("the escape sequence is not complete");
      }
    }
    if (i >= source_.size()) return error("the string has no end");
    tokens_.push_back(std::move(token));
    pos_ = i + 1;
    return {};
  }

  // Python's escapes. Moves `i`, which is at the backslash, past the sequence.
  bool append_escape(size_t& i, std::string& out) const {
    static constexpr std::pair<char, char> kSimple[] = {{'\\', '\\'}, {'\'', '\''}, {'"', '"'},  {'a', '\a'},
                                                        {'b', '\b'},  {'f', '\f'},  {'n', '\n'}, {'r', '\r'},
                                                        {'t', '\t'},  {'v', '\v'}};
    if (i + 1 >= source_.size()) return false;
    const char c = source_[i + 1];
    for (auto [letter, meaning] : kSimple) {
      if (c != letter) continue;
      out += meaning;
      i += 2;
      return true;
    }
    if (c == '\n') {
      i += 2;
      return true;
    }
    if (c >= '0' && c <= '7') return append_code(i + 1, 3, 8, /*is_exact=*/false, i, out);
    if (c == 'x') return append_code(i + 2, 2, 16, true, i, out);
    if (c == 'u') return append_code(i + 2, 4, 16, true, i, out);
    if (c == 'U') return append_code(i + 2, 8, 16, true, i, out);
    out += '\\';  // unknown: it stays as it is
    ++i;
    return true;
  }

  bool append_code(size_t begin, size_t n_digits, int base, bool is_exact, size_t& i, std::string& out) const {
    const std::string_view digits = source_.substr(begin, n_digits);
    uint32_t code = 0;
    auto [stop, status] = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    const auto n_read = static_cast<size_t>(stop - digits.data());
    if (status != std::errc() || (is_exact && n_read != n_digits) || code > 0x10FFFF) return false;
    append_utf8(out, code >= 0xD800 && code < 0xE000 ? kReplacementCharacter : static_cast<char32_t>(code));
    i = begin + n_read;
    return true;
  }

  const std::string_view source_;
  size_t pos_ = 0;
  size_t counted_ = 0;
  Position here_;
  bool at_line_start_ = true;
  std::string brackets_;
  std::vector<Token> tokens_;
};

}  // namespace

Error at_position(const Position& position, Error error) {
  return std::move(error).context(fmt::format("line {}, column {}", position.line, position.column));
}

std::string Token::describe() const {
  switch (kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kString:
      return "a string";
    default:
      return fmt::format("'{}'", text);
  }
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  const std::string normalized = normalize_source(source);
  return Lexer(normalized).run();
}

}  // namespace tempo9::chat
