#include "chat/template/strings.h"

#include <algorithm>

#include "base/utf8.h"

namespace tempo9::chat {
namespace {

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

std::vector<Text> split_at(const Text& text, std::string_view separator, int64_t limit) {
  std::vector<Text> pieces;
  size_t begin = 0;
  for (; limit != 0; --limit) {
    const size_t found = text.bytes.find(separator, begin);
    if (found == std::string::npos) break;
    pieces.push_back(text.slice(begin, found));
    begin = found + separator.size();
  }
  pieces.push_back(text.slice(begin, text.size()));
  return pieces;
}

std::vector<Text> split_at_from_right(const Text& text, std::string_view separator, int64_t limit) {
  std::vector<Text> pieces;
  size_t end = text.size();
  for (; limit != 0 && end >= separator.size(); --limit) {
    const size_t found = text.bytes.rfind(separator, end - separator.size());
    if (found == std::string::npos) break;
    pieces.push_back(text.slice(found + separator.size(), end));
    end = found;
  }
  pieces.push_back(text.slice(0, end));
  std::ranges::reverse(pieces);
  return pieces;
}

std::vector<Text> split_space(const Text& text, int64_t limit) {
  std::vector<Text> pieces;
  const std::string_view bytes = text.bytes;
  size_t begin = strip_space(bytes, true, false).first;
  for (; begin < bytes.size() && limit != 0; --limit) {
    size_t end = begin;
    while (end < bytes.size()) {
      size_t next = end;
      if (is_space(decode_utf8(bytes, next))) break;
      end = next;
    }
    pieces.push_back(text.slice(begin, end));
    begin = end + strip_space(bytes.substr(end), true, false).first;
  }
  if (begin < bytes.size()) pieces.push_back(text.slice(begin, text.size()));
  return pieces;
}

std::vector<Text> split_lines(const Text& text, bool keeps_ends) {
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = pos;
    const char32_t c = decode_utf8(text.bytes, pos);
    if (!is_line_break(c)) continue;
    if (c == '\r' && pos < text.size() && text.bytes[pos] == '\n') ++pos;
    lines.push_back(text.slice(begin, keeps_ends ? pos : end));
    begin = pos;
  }
  if (begin < text.size()) lines.push_back(text.slice(begin, text.size()));
  return lines;
}

Text escape(const Text& text) {
  std::string out;
  for (char c : text.bytes) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return text.all_trusted() ? Text::from_template(std::move(out)) : Text::from_outside(std::move(out));
}

Result<Text> replace(Context& context, const Text& text, const Text& old_text, const Text& new_text, int64_t limit) {
  Meter& meter = context.meter();
  meter.step_bytes(text.size());
  Text out;
  size_t begin = 0;
  size_t search = 0;
  for (; limit != 0; --limit) {
    const size_t found = text.bytes.find(old_text.bytes, search);
    if (found == std::string::npos) break;
    out.append_slice(text, begin, found);
    out.append(new_text);
    meter.step();
    if (!meter.can_hold(out.size()) || meter.exceeded()) return fail(meter.error());
    begin = found + old_text.size();
    search = begin;
    if (old_text.bytes.empty()) {
      if (search == text.size()) break;
      decode_utf8(text.bytes, search);
    }
  }
  out.append_slice(text, begin, text.size());
  if (!meter.can_hold(out.size())) return fail(meter.error());
  return out;
}

}  // namespace tempo9::chat
