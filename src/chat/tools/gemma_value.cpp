#include "chat/tools/gemma_value.h"

#include <algorithm>

#include "chat/tools/json_strings.h"
#include "chat/tools/number_text.h"
#include "chat/tools/text_cursor.h"

namespace tempo9::chat::tools {
namespace {

class Reader : public TextCursor {
 public:
  using TextCursor::TextCursor;

  bool take_value(std::string& json, int depth) {
    skip_space();
    if (rest_.empty() || depth > kMaxGemmaNesting) return false;
    if (rest_.front() == '{') return take_object(json, depth);
    if (rest_.front() == '[') return take_array(json, depth);
    if (const auto text = take_quoted()) {
      json += quote_json(*text);
      return true;
    }
    const size_t end = std::min(rest_.find_first_of(",}]"), rest_.size());
    json += gemma_bare_to_json(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return true;
  }

 private:
  bool take_object(std::string& json, int depth) {
    rest_.remove_prefix(1);
    json += '{';
    for (bool is_first = true; !take('}'); is_first = false) {
      if (!is_first) json += ',';
      if (!take_key(json) || !take(':')) return false;
      json += ':';
      if (!take_value(json, depth + 1)) return false;
      take(',');
    }
    json += '}';
    return true;
  }

  bool take_array(std::string& json, int depth) {
    rest_.remove_prefix(1);
    json += '[';
    for (bool is_first = true; !take(']'); is_first = false) {
      if (!is_first) json += ',';
      if (!take_value(json, depth + 1)) return false;
      if (!take(',') && !rest_.starts_with(']')) return false;
    }
    json += ']';
    return true;
  }

  bool take_key(std::string& json) {
    skip_space();
    if (const auto key = take_quoted()) {
      json += quote_json(*key);
      return true;
    }
    const size_t end = rest_.find_first_of(":}");
    if (end == std::string_view::npos || end == 0) return false;
    json += quote_json(trim_json_space(rest_.substr(0, end)));
    rest_.remove_prefix(end);
    return true;
  }

  std::optional<std::string> take_quoted() {
    if (rest_.starts_with(kGemmaQuote)) return take_until_quote(kGemmaQuote);
    if (rest_.starts_with('\'')) return take_until_quote("'");
    if (!rest_.starts_with('"')) return std::nullopt;
    for (size_t end = 1; end < rest_.size(); ++end) {
      if (rest_[end] == '\\') {
        ++end;
      } else if (rest_[end] == '"') {
        auto text = decode_json_string(rest_.substr(0, end + 1));
        if (text) rest_.remove_prefix(end + 1);
        return text;
      }
    }
    return std::nullopt;
  }

  // A quote closes where a value may end; elsewhere it is text.
  std::optional<std::string> take_until_quote(std::string_view quote) {
    for (size_t end = rest_.find(quote, quote.size()); end != std::string_view::npos;
         end = rest_.find(quote, end + quote.size())) {
      const std::string_view behind = trim_json_space(rest_.substr(end + quote.size()));
      if (!behind.empty() && std::string_view(",}]:").find(behind.front()) == std::string_view::npos) continue;
      std::string text(rest_.substr(quote.size(), end - quote.size()));
      rest_.remove_prefix(end + quote.size());
      return text;
    }
    return std::nullopt;
  }
};

}  // namespace

std::optional<std::string> gemma_value_to_json(std::string_view text) {
  Reader reader(text);
  std::string json;
  if (!reader.take_value(json, 0) || !reader.is_at_end()) return std::nullopt;
  return json;
}

std::string gemma_bare_to_json(std::string_view text) {
  text = trim_json_space(text);
  const bool is_word = text == "true" || text == "false" || text == "null";
  return is_word || parse_decimal(text, NumberSyntax::kJson) ? std::string(text) : quote_json(text);
}

}  // namespace tempo9::chat::tools
