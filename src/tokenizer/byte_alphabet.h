// The 256 printable characters in which byte-level vocabularies write bytes (spec tokenizers 2.1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tempo9::tokenizer {

// U+0021 to U+0143.
char32_t byte_to_character(uint8_t byte);
std::optional<uint8_t> character_to_byte(char32_t character);

// The bytes that a token's text stands for; empty optional when a character is outside the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view text);
// The same, with characters outside the alphabet kept as they are.
std::string alphabet_to_bytes_or_text(std::string_view text);

}  // namespace tempo9::tokenizer
