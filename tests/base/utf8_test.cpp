#include "base/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace tempo9 {
namespace {

TEST(Utf8, ReplacesEachMaximalIllFormedSubpart) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(sanitize_utf8("\xFF"), r);
  EXPECT_EQ(sanitize_utf8("\xC3"), r);
  EXPECT_EQ(sanitize_utf8("\xE2\x82"), r);
  EXPECT_EQ(sanitize_utf8("\xF0\x9F\x98"), r);
  EXPECT_EQ(sanitize_utf8("\xC0\x80"), r + r);          // overlong
  EXPECT_EQ(sanitize_utf8("\xED\xA0\x80"), r + r + r);  // surrogate
  EXPECT_EQ(sanitize_utf8("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(sanitize_utf8("\xE2\x82"
                          "A"),
            r + "A");
}

TEST(Utf8, JoinerGivesTheSameTextHoweverTheBytesAreCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i) {
      switch (random() % 4) {
        case 0:
          bytes += static_cast<char>(random());
          break;
        case 1:
          append_utf8(bytes, 0x1F600 + random() % 64);
          break;
        case 2:
          append_utf8(bytes, 0x4E00 + random() % 64);
          break;
        default:
          bytes += static_cast<char>('a' + random() % 26);
      }
    }
    const std::string whole = sanitize_utf8(bytes);
    EXPECT_TRUE(is_valid_utf8(whole));
    Utf8Joiner joiner;
    std::string joined;
    for (size_t pos = 0; pos < bytes.size();) {
      const size_t n = std::min<size_t>(1 + random() % 4, bytes.size() - pos);
      joiner.feed(std::string_view(bytes).substr(pos, n), joined);
      EXPECT_TRUE(is_valid_utf8(joined));
      pos += n;
    }
    joiner.finish(joined);
    EXPECT_EQ(joined, whole);
  }
}

TEST(Utf8, DecodesWhatItEncodes) {
  for (char32_t c : {U'\0', U'a', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xFFFF', U'\x10000', U'\x10FFFF'}) {
    std::string text;
    append_utf8(text, c);
    size_t pos = 0;
    EXPECT_EQ(decode_utf8(text, pos), c);
    EXPECT_EQ(pos, text.size());
  }
}

}  // namespace
}  // namespace tempo9
