// Unicode normalisation form C.
#pragma once

#include <string>
#include <string_view>

namespace tempo9::tokenizer {

// True only for text that is in NFC; false may also mean "cannot tell without normalising".
bool is_surely_nfc(std::string_view text);

// n log n for any text: long runs of combining marks in the wrong order are sorted, not bubbled.
// REQUIRES: well-formed UTF-8.
std::string to_nfc(std::string_view text);

}  // namespace tempo9::tokenizer
