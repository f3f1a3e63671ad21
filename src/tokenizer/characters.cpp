#include "tokenizer/characters.h"

#include <utf8proc.h>

namespace tempo9::tokenizer {
namespace {

bool is_newline(char32_t c) { return c == '\n' || c == '\r'; }

// The property White_Space, written out: engines differ on U+180E and U+0085.
bool is_white_space(char32_t c) {
  switch (c) {
    case 0x09:
    case 0x0A:
    case 0x0B:
    case 0x0C:
    case 0x0D:
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return c >= 0x2000 && c <= 0x200A;
  }
}

CharClass class_by_category(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    default:
      return CharClass::kOther;
  }
}

constexpr std::array<CharClass, 128> make_ascii_classes() {
  std::array<CharClass, 128> classes;
  classes.fill(CharClass::kOther);
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = classes[c - 'a' + 'A'] = CharClass::kLetter;
  for (int c = '0'; c <= '9'; ++c) classes[c] = CharClass::kNumber;
  for (const char c : {' ', '\t', '\v', '\f'}) classes[static_cast<size_t>(c)] = CharClass::kSpace;
  for (const char c : {'\n', '\r'}) classes[static_cast<size_t>(c)] = CharClass::kNewline;
  return classes;
}

}  // namespace

constinit const std::array<CharClass, 128> kAsciiClasses = make_ascii_classes();

CharClass classify(char32_t c) {
  if (is_newline(c)) return CharClass::kNewline;
  if (is_white_space(c)) return CharClass::kSpace;
  return class_by_category(c);
}

}  // namespace tempo9::tokenizer
