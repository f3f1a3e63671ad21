// The text that a pre-tokenizer's scanner looks through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/utf8.h"
#include "tokenizer/characters.h"

namespace tempo9::tokenizer {

// Well-formed text, one look at a time, for one scanner. Looks are counted: that costs an addition beside the decoding
// of a character, and lets tests hold scanners to linear work without a clock.
class ScannedText {
 public:
  // What a scanner remembers of a run that it has looked through and only in part given out, so that it looks through
  // each run once. Most need nothing of the kind.
  struct RunAhead {
    size_t end = 0;      // of the run, in bytes; 0 before the first
    size_t n_to_go = 0;  // characters of it that will be matched
  };

  // `text` must outlive the object.
  explicit ScannedText(std::string_view text) : text_(text) {}

  size_t size() const { return text_.size(); }
  // REQUIRES: pos <= size(), a character boundary.
  Char at(size_t pos) {
    ++n_looks_;
    if (pos == text_.size()) return {CharClass::kEnd, pos};
    const auto byte = static_cast<uint8_t>(text_[pos]);
    if (byte < 0x80) return {kAsciiClasses[byte], pos + 1};
    const char32_t code_point = decode_utf8(text_, pos);
    return {classify(code_point), pos};
  }
  // The code point at `pos`, which moves past it. REQUIRES: pos < size(), a character boundary.
  char32_t code_point(size_t& pos) {
    ++n_looks_;
    return decode_utf8(text_, pos);
  }
  // NUL from the end on.
  char byte(size_t pos) {
    ++n_looks_;
    return pos < text_.size() ? text_[pos] : '\0';
  }
  bool has(std::string_view part, size_t pos) {
    ++n_looks_;
    return text_.substr(pos).starts_with(part);
  }

  // Where the characters of `set` that begin at `pos` end; `pos` where there are none.
  size_t end_of_run(size_t pos, CharSet set) {
    for (Char c = at(pos); c.in(set); c = at(pos)) pos = c.end;
    return pos;
  }

  size_t n_looks() const { return n_looks_; }

  RunAhead ahead;

 private:
  std::string_view text_;
  size_t n_looks_ = 0;
};

}  // namespace tempo9::tokenizer
