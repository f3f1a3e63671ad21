#include "tokenizer/characters.h"

#include <utf8proc.h>

#include <string_view>

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
    case UTF8PROC_CATEGORY_LT:
      return CharClass::kUpper;
    case UTF8PROC_CATEGORY_LL:
      return CharClass::kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::kMark;
    case UTF8PROC_CATEGORY_ND:
      return CharClass::kDigit;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_PC:
      return CharClass::kConnector;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharClass::kPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return CharClass::kSymbol;
    default:
      return CharClass::kOther;
  }
}

constexpr std::array<CharClass, 128> make_ascii_classes() {
  std::array<CharClass, 128> classes;
  classes.fill(CharClass::kOther);
  const auto set = [&](std::string_view members, CharClass char_class) {
    for (const char c : members) classes[static_cast<size_t>(c)] = char_class;
  };
  set("ABCDEFGHIJKLMNOPQRSTUVWXYZ", CharClass::kUpper);
  set("abcdefghijklmnopqrstuvwxyz", CharClass::kLower);
  set("0123456789", CharClass::kDigit);
  set("_", CharClass::kConnector);
  set("!\"#%&'()*,-./:;?@[\\]{}", CharClass::kPunctuation);
  set("$+<=>^`|~", CharClass::kSymbol);
  set("\n\r", CharClass::kNewline);
  set(" \t\v\f", CharClass::kSpace);
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
