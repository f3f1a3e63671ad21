// The character classes that pre-tokenizers tell apart (spec tokenizers 1.2). Unicode version: that of utf8proc, 15.0
// in the oldest we build with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace tempo9::tokenizer {

// A partition of all code points, with the end of the text as one more.
enum class CharClass : uint8_t {
  kEnd,
  kUpper,        // Lu, Lt
  kLower,        // Ll
  kLetter,       // Lm, Lo: no case
  kMark,         // M
  kDigit,        // Nd
  kNumber,       // Nl, No
  kConnector,    // Pc
  kPunctuation,  // the other P
  kSymbol,       // S
  kNewline,      // CR and LF
  kSpace,        // the other White_Space
  kOther,        // controls, formats, private and unassigned code points
};

CharClass classify(char32_t code_point);

// A union of classes.
class CharSet {
 public:
  constexpr CharSet(std::initializer_list<CharClass> classes) {
    for (const CharClass c : classes) bits_ |= bit(c);
  }
  constexpr bool has(CharClass c) const { return (bits_ & bit(c)) != 0; }
  constexpr CharSet operator|(CharSet other) const { return CharSet(bits_ | other.bits_); }
  // All characters that are not in the set; never the end of the text.
  constexpr CharSet operator~() const { return CharSet(~bits_ & ~bit(CharClass::kEnd)); }

 private:
  constexpr explicit CharSet(uint32_t bits) : bits_(bits) {}
  static constexpr uint32_t bit(CharClass c) { return uint32_t{1} << static_cast<unsigned>(c); }

  uint32_t bits_ = 0;
};

inline constexpr CharSet kLetters = {CharClass::kUpper, CharClass::kLower, CharClass::kLetter};  // \p{L}
inline constexpr CharSet kMarks = {CharClass::kMark};                                            // \p{M}
inline constexpr CharSet kNumbers = {CharClass::kDigit, CharClass::kNumber};                     // \p{N}
inline constexpr CharSet kPunctuation = {CharClass::kConnector, CharClass::kPunctuation};        // \p{P}
inline constexpr CharSet kSymbols = {CharClass::kSymbol};                                        // \p{S}
inline constexpr CharSet kNewlines = {CharClass::kNewline};                                      // [\r\n]
inline constexpr CharSet kWhitespace = {CharClass::kSpace, CharClass::kNewline};                 // \s

// A character in a text, or the end of it.
struct Char {
  CharClass char_class = CharClass::kEnd;
  size_t end = 0;  // where the next character begins

  bool in(CharSet set) const { return set.has(char_class); }
};

extern const std::array<CharClass, 128> kAsciiClasses;

}  // namespace tempo9::tokenizer
