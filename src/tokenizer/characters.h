// The character classes that pre-tokenizers tell apart (spec tokenizers 1.2). Unicode version: that of utf8proc, 15.0
// in the oldest we build with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/utf8.h"

namespace tempo9::tokenizer {

// A partition of all code points, with the end of the text as one more. Marks, punctuation, symbols, controls and
// unassigned code points are all kOther: none of the patterns implemented here separates them.
enum class CharClass : uint8_t { kEnd, kLetter, kNumber, kNewline, kSpace, kOther };

// kNewline is CR and LF only; the other White_Space code points are kSpace.
CharClass classify(char32_t code_point);

// The character at a place in a text.
struct Char {
  CharClass char_class = CharClass::kEnd;
  size_t end = 0;  // where the next character begins

  bool is_whitespace() const { return char_class == CharClass::kSpace || char_class == CharClass::kNewline; }
};

extern const std::array<CharClass, 128> kAsciiClasses;

// REQUIRES: pos <= text.size().
inline Char char_at(std::string_view text, size_t pos) {
  if (pos == text.size()) return {CharClass::kEnd, pos};
  const auto byte = static_cast<uint8_t>(text[pos]);
  if (byte < 0x80) return {kAsciiClasses[byte], pos + 1};
  const char32_t code_point = decode_utf8(text, pos);
  return {classify(code_point), pos};
}

}  // namespace tempo9::tokenizer
