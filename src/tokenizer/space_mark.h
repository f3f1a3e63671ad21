// The character that SentencePiece and Gemma 4 write for a space.
#pragma once

#include <string>
#include <string_view>

namespace tempo9::tokenizer {

inline constexpr std::string_view kSpaceMark = "\u2581";

// Appends `text` with each space as a mark.
void append_marked(std::string& out, std::string_view text);
// The text of a token with each mark as a space.
std::string spaces_for_marks(std::string_view text);

}  // namespace tempo9::tokenizer
