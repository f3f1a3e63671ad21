#include "tokenizer/nfc.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

std::string library_nfc(const std::string& text) {
  utf8proc_uint8_t* out = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                          static_cast<utf8proc_ssize_t>(text.size()), &out, options);
  std::string result(reinterpret_cast<const char*>(out), static_cast<size_t>(n));
  std::free(out);
  return result;
}

std::string as_text(char32_t code_point) {
  std::string text;
  append_utf8(text, code_point);
  return text;
}

TEST(Nfc, Composes) {
  EXPECT_EQ(to_nfc("e\u0301"), "é");
  EXPECT_EQ(to_nfc("\u212B"), "Å");
  EXPECT_EQ(to_nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(to_nfc("\u1112\u1161\u11AB"), "한");
  EXPECT_EQ(to_nfc(""), "");
}

TEST(Nfc, EqualsTheLibraryOnRandomText) {
  std::vector<std::string> units;
  for (const char32_t c : {'a', 'e', 'q'}) units.push_back(as_text(c));
  for (const char32_t c : {0xE9, 0x1E69, 0x212B, 0x2126, 0x0958, 0x09C7, 0x09BE, 0x0DD9, 0x0DCF, 0x0DCA, 0xAC00, 0x1100,
                           0x1161, 0x11A8, 0x0344, 0x0F73, 0x2ADC, 0xFB1D, 0x1D15E}) {
    units.push_back(as_text(c));
  }
  for (char32_t c = 0x300; c < 0x370; c += 3) units.push_back(as_text(c));
  for (const char32_t c : {0x05B0, 0x05BC, 0x064B, 0x0670, 0x3099, 0x302A, 0x20D0}) units.push_back(as_text(c));
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = testing::random_text(random, units, 1 + random() % 12);
    const std::string expected = library_nfc(text);
    ASSERT_EQ(to_nfc(text), expected) << text;
    if (is_surely_nfc(text)) {
      ASSERT_EQ(text, expected);
    }
  }
}

// What the quick check lets through neither changes on its own nor as the second half of a composition.
TEST(Nfc, QuickCheckIsSafeForEveryCodePoint) {
  for (char32_t c = 0; c <= 0x30000; ++c) {  // nothing above is assigned and decomposes
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = as_text(c);
    utf8proc_int32_t parts[8];
    int boundary = 0;
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 8, options, &boundary);
    if (is_surely_nfc(text)) {
      ASSERT_EQ(library_nfc(text), text) << std::hex << static_cast<uint32_t>(c);
    }
    for (utf8proc_ssize_t i = 1; i < n; ++i) {
      ASSERT_FALSE(is_surely_nfc(as_text(static_cast<char32_t>(parts[i])))) << std::hex << parts[i];
    }
  }
}

}  // namespace
}  // namespace tempo9::tokenizer
