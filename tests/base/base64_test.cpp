#include "base/base64.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

namespace tempo9 {
namespace {

// RFC 4648, section 10.
TEST(Base64, EncodesTheExamplesOfTheStandard) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes);
  }
}

TEST(Base64, DecodesWhatItEncoded) {
  std::mt19937 random(3);
  for (size_t n = 0; n < 200; ++n) {
    std::string bytes(n, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string text = encode_base64(bytes);
    EXPECT_EQ(decode_base64(text), bytes);
    EXPECT_EQ(decode_base64(text.substr(0, text.find('='))), bytes) << "padding may be left out";
  }
}

TEST(Base64, OtherTextIsNotDecoded) {
  for (const char* text : {"a", "abcde", "ab c", "ab\n=", "a=bc", "===", "\xff\xff\xff\xff", "gAAAA-_x"}) {
    EXPECT_FALSE(decode_base64(text)) << text;
  }
}

}  // namespace
}  // namespace tempo9
