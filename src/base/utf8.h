// UTF-8: validation, decoding, and the hold-back of characters that are still incomplete. Ill-formed bytes follow
// Unicode Table 3-7: each maximal ill-formed subpart becomes one U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tempo9 {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr char32_t kLastCodePoint = 0x10FFFF;

bool is_valid_utf8(std::string_view bytes);

// Decodes the character at `bytes[pos]`, which need not be well-formed, and moves `pos` past it.
// REQUIRES: pos < bytes.size().
char32_t decode_utf8(std::string_view bytes, size_t& pos);

void append_utf8(std::string& out, char32_t code_point);

// The same text with each ill-formed subpart replaced by U+FFFD.
std::string sanitize_utf8(std::string_view bytes);

// Joins the bytes of consecutive tokens to well-formed text: a trailing sequence that can still become a character
// (at most 3 bytes) is held back until it does. One per sequence; not thread-safe.
class Utf8Joiner {
 public:
  // Appends to `out` all text that is complete after `bytes`.
  void feed(std::string_view bytes, std::string& out);
  // End of the stream: what is still held back becomes one U+FFFD.
  void finish(std::string& out);
  bool holds_bytes() const { return !pending_.empty(); }

 private:
  std::string pending_;
};

}  // namespace tempo9
