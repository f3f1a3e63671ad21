#include "chat/template/text.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace tempo9::chat {
namespace {

using tokenizer::ByteRange;

void add_range(std::vector<ByteRange>& ranges, size_t begin, size_t end) {
  if (begin == end) return;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

// The last character that starts before `end`. Its start is written to `end`. REQUIRES: end > 0.
char32_t decode_backwards(std::string_view text, size_t& end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  size_t pos = begin;
  const char32_t c = decode_utf8(text, pos);
  if (pos == end) {
    end = begin;
    return c;
  }
  --end;  // ill-formed: one byte at a time
  return kReplacementCharacter;
}

template <class IsStripped>
std::pair<size_t, size_t> strip_if(std::string_view text, bool left, bool right, IsStripped is_stripped) {
  size_t begin = 0;
  size_t end = text.size();
  while (left && begin < end) {
    size_t pos = begin;
    if (!is_stripped(decode_utf8(text, pos))) break;
    begin = pos;
  }
  while (right && begin < end) {
    size_t pos = end;
    if (!is_stripped(decode_backwards(text, pos)) || pos < begin) break;
    end = pos;
  }
  return {begin, end};
}

void append_lower(std::string& out, char32_t c) {
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

// The one letter of everyday text whose upper case is two letters; other such letters keep their simple mapping.
void append_upper(std::string& out, char32_t c) {
  if (c == 0xDF) {
    out += "SS";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

template <class AppendMapped>
std::string map_chars(std::string_view text, AppendMapped append_mapped) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) append_mapped(out, decode_utf8(text, pos));
  return out;
}

}  // namespace

Text Text::from_template(std::string bytes) {
  Text text{std::move(bytes), {}};
  add_range(text.trusted, 0, text.bytes.size());
  return text;
}

bool Text::all_trusted() const {
  return bytes.empty() || (trusted.size() == 1 && trusted[0].begin == 0 && trusted[0].end == bytes.size());
}

void Text::append_slice(const Text& other, size_t begin, size_t end) {
  if (bytes.empty() && begin == 0 && end == other.size()) {
    *this = other;
    return;
  }
  const size_t base = bytes.size();
  auto first = std::ranges::upper_bound(other.trusted, begin, {}, &ByteRange::end);
  for (auto it = first; it != other.trusted.end() && it->begin < end; ++it)
    add_range(trusted, base + std::max(it->begin, begin) - begin, base + std::min(it->end, end) - begin);
  bytes.append(other.bytes, begin, end - begin);
}

void Text::append_trusted(std::string_view more) {
  add_range(trusted, bytes.size(), bytes.size() + more.size());
  bytes.append(more);
}

Text Text::slice(size_t begin, size_t end) const {
  Text result;
  result.append_slice(*this, begin, end);
  return result;
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

int64_t count_chars(std::string_view text) {
  if (is_ascii(text)) return static_cast<int64_t>(text.size());
  int64_t n = 0;
  for (size_t pos = 0; pos < text.size(); ++n) decode_utf8(text, pos);
  return n;
}

size_t char_offset(std::string_view text, int64_t index) {
  size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) decode_utf8(text, pos);
  return pos;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

std::pair<size_t, size_t> strip_space(std::string_view text, bool left, bool right) {
  return strip_if(text, left, right, is_space);
}

std::pair<size_t, size_t> strip_chars(std::string_view text, std::string_view set, bool left, bool right) {
  std::u32string chars;
  for (size_t pos = 0; pos < set.size();) chars += decode_utf8(set, pos);
  std::ranges::sort(chars);
  return strip_if(text, left, right, [&](char32_t c) { return std::ranges::binary_search(chars, c); });
}

std::string to_lower(std::string_view text) { return map_chars(text, append_lower); }

std::string to_upper(std::string_view text) { return map_chars(text, append_upper); }

std::string capitalize(std::string_view text) {
  const size_t first = char_offset(text, 1);
  return to_upper(text.substr(0, first)) + to_lower(text.substr(first));
}

}  // namespace tempo9::chat
