// The expressions of byte-level families as scanners (spec tokenizers 1.3 and 1.5). Each gives the end of the match
// that begins at `pos`, or `pos` where none does, in one forward pass: over a whole text the time is linear and the
// stack constant. What they match is the pattern beside them in pre_tokenizer.cpp.
//
// REQUIRES, of all: pos < text.size(), a character boundary; calls for one text in ascending order of `pos`.
#pragma once

#include <cstddef>

#include "tokenizer/scanned_text.h"

namespace tempo9::tokenizer {

size_t scan_gpt2(ScannedText& text, size_t pos);
size_t scan_llama3(ScannedText& text, size_t pos);
size_t scan_qwen2(ScannedText& text, size_t pos);
size_t scan_qwen35(ScannedText& text, size_t pos);
size_t scan_tekken(ScannedText& text, size_t pos);
size_t scan_o200k(ScannedText& text, size_t pos);
size_t scan_deepseek_v3(ScannedText& text, size_t pos);

// Stages of families that cut in several steps.
size_t scan_one_number(ScannedText& text, size_t pos);
size_t scan_up_to_three_numbers(ScannedText& text, size_t pos);
size_t scan_numbers(ScannedText& text, size_t pos);
size_t scan_three_ascii_digits(ScannedText& text, size_t pos);
// Groups of three from the right, where no word goes on behind the digits. A word is letters, marks, decimal digits and
// connectors, as in Oniguruma.
size_t scan_thousands(ScannedText& text, size_t pos);
size_t scan_newline(ScannedText& text, size_t pos);
size_t scan_trailing_whitespace(ScannedText& text, size_t pos);
size_t scan_letters(ScannedText& text, size_t pos);      // after one whitespace, if there is one
size_t scan_punctuation(ScannedText& text, size_t pos);  // likewise
size_t scan_falcon_punctuation(ScannedText& text, size_t pos);
size_t scan_deepseek_letters(ScannedText& text, size_t pos);
size_t scan_deepseek_punctuation(ScannedText& text, size_t pos);
size_t scan_deepseek_scripts(ScannedText& text, size_t pos);  // Chinese, Korean and what lies below
size_t scan_han_and_kana(ScannedText& text, size_t pos);

}  // namespace tempo9::tokenizer
