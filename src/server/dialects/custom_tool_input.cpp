#include "server/dialects/custom_tool_input.h"

#include <algorithm>
#include <optional>

#include "chat/json_text.h"
#include "chat/tools/json_strings.h"

namespace tempo9::server {

namespace {

using chat::Json;

// `\ud83d\ude00`: no escape is longer.
constexpr size_t kLongestEscape = 12;

// Of the escape at the beginning of `text`, counting a high surrogate's other half in: 0 when its end is not there yet.
size_t escape_size(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] != 'u') return 2;
  if (text.size() < 6) return 0;
  const bool is_high = (text[2] | 0x20) == 'd' && std::string_view("89abAB").contains(text[3]);
  if (!is_high) return 6;
  if (text.size() < kLongestEscape) return 0;
  const bool has_low =
      text.substr(6, 2) == "\\u" && (text[8] | 0x20) == 'd' && std::string_view("cdefCDEF").contains(text[9]);
  return has_low ? kLongestEscape : 6;
}

std::string whole_text(const std::string& arguments) {
  const auto json = chat::parse_json_text(arguments);
  if (!json) return arguments;
  if (json->is_string()) return json->get<std::string>();
  if (!json->is_object()) return arguments;
  if (json->empty()) return {};
  const auto input = json->find("input");
  if (input != json->end() && input->is_string()) return input->get<std::string>();
  const bool has_one_text = json->size() == 1 && json->front().is_string();
  return has_one_text ? json->front().get<std::string>() : arguments;
}

}  // namespace

std::string CustomToolInput::feed(std::string_view arguments) {
  arguments_ += arguments;
  if (phase_ == Phase::kHead) read_head();
  return phase_ == Phase::kText ? read_text(/*is_last=*/false) : std::string();
}

std::string CustomToolInput::finish() {
  if (phase_ == Phase::kText) return read_text(/*is_last=*/true);
  if (phase_ == Phase::kDone) return {};
  // Arguments that broke off before their text hold none.
  if (phase_ == Phase::kHead && !chat::parse_json_text(arguments_)) return {};
  return whole_text(arguments_);
}

void CustomToolInput::read_head() {
  size_t at = 0;
  for (const std::string_view expected : {"{", "\"input\"", ":", "\""}) {
    while (at < arguments_.size() && chat::tools::is_json_space(arguments_[at])) ++at;
    const std::string_view there = std::string_view(arguments_).substr(at, expected.size());
    if (!expected.starts_with(there)) {
      phase_ = Phase::kOther;
      return;
    }
    if (there.size() < expected.size()) return;
    at += expected.size();
  }
  phase_ = Phase::kText;
  next_ = at;
}

std::string CustomToolInput::read_text(bool is_last) {
  const std::string_view rest = std::string_view(arguments_).substr(next_);
  size_t end = 0;
  while (end < rest.size() && rest[end] != '"') {
    size_t n = rest[end] == '\\' ? escape_size(rest.substr(end)) : 1;
    // At the very end a high surrogate stays alone, and what is no whole escape is dropped.
    if (n == 0 && is_last && rest.size() - end >= 6) n = 6;
    if (n == 0) break;
    end += n;
  }
  if (end < rest.size() && rest[end] == '"') phase_ = Phase::kDone;
  const std::string written(rest.substr(0, end));
  next_ += end;
  return chat::tools::decode_json_string("\"" + written + "\"").value_or(written);
}

}  // namespace tempo9::server
