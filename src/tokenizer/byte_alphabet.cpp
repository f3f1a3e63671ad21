#include "tokenizer/byte_alphabet.h"

#include "base/utf8.h"

namespace tempo9::tokenizer {

char32_t byte_to_character(uint8_t byte) {
  if (byte <= 0x20) return 0x100 + char32_t{byte};
  if (byte >= 0x7F && byte <= 0xA0) return 0xA2 + char32_t{byte};
  if (byte == 0xAD) return 0x143;
  return byte;
}

std::optional<uint8_t> character_to_byte(char32_t c) {
  if (c >= 0x100 && c <= 0x120) return static_cast<uint8_t>(c - 0x100);
  if (c >= 0x121 && c <= 0x142) return static_cast<uint8_t>(c - 0xA2);
  if (c == 0x143) return 0xAD;
  if (c > 0xFF || byte_to_character(static_cast<uint8_t>(c)) != c) return std::nullopt;
  return static_cast<uint8_t>(c);
}

std::optional<std::string> alphabet_to_bytes(std::string_view text) {
  std::string bytes;
  for (size_t pos = 0; pos < text.size();) {
    const std::optional<uint8_t> byte = character_to_byte(decode_utf8(text, pos));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

std::string alphabet_to_bytes_or_text(std::string_view text) {
  std::string bytes;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const std::optional<uint8_t> byte = character_to_byte(decode_utf8(text, pos));
    if (byte) {
      bytes += static_cast<char>(*byte);
    } else {
      bytes += text.substr(begin, pos - begin);
    }
  }
  return bytes;
}

}  // namespace tempo9::tokenizer
