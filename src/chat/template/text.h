// Text that knows which of its bytes the template wrote, and the few string operations that Python counts in characters
// rather than bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tempo9::chat {

// Bytes outside `trusted` came from messages, tools or other variables, or have lost their origin.
struct Text {
  std::string bytes;
  std::vector<tokenizer::ByteRange> trusted;  // ascending, disjoint, adjacent ranges joined, none empty

  static Text from_template(std::string bytes);
  static Text from_outside(std::string bytes) { return Text{std::move(bytes), {}}; }

  size_t size() const { return bytes.size(); }
  bool all_trusted() const;

  void append(const Text& other) { append_slice(other, 0, other.size()); }
  void append_slice(const Text& other, size_t begin, size_t end);
  void append_trusted(std::string_view more);
  void append_untrusted(std::string_view more) { bytes.append(more); }
  // REQUIRES: begin <= end <= size().
  Text slice(size_t begin, size_t end) const;
};

bool is_ascii(std::string_view text);
// Unicode characters; each ill-formed subpart counts as one.
int64_t count_chars(std::string_view text);
// Where character number `index` starts; the text's size when it has fewer. REQUIRES: index >= 0.
size_t char_offset(std::string_view text, int64_t index);
// What Python's str.isspace() and the template syntax take for white space.
bool is_space(char32_t c);
// The part of `text` that is left when white space is taken off its ends, as a byte range.
std::pair<size_t, size_t> strip_space(std::string_view text, bool left = true, bool right = true);
// The same for the characters of `set`.
std::pair<size_t, size_t> strip_chars(std::string_view text, std::string_view set, bool left = true, bool right = true);

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
// First character in upper case, the others in lower case.
std::string capitalize(std::string_view text);

}  // namespace tempo9::chat
