// The scanners of whole-text patterns and of the simple stages. Those over lists of code points are in
// deepseek_scanners.cpp.
#include "tokenizer/scanners.h"

#include "tokenizer/scanned_text.h"

namespace tempo9::tokenizer {
namespace {

// Length of the suffix of "it's", "we'll", … that begins at `pos`; 0 for none.
enum class CaseRule { kSensitive, kFolded };
template <CaseRule rule>
size_t contraction_length(ScannedText& text, size_t pos) {
  if (text.byte(pos) != '\'') return 0;
  const auto letter = [&](size_t i) -> char {
    const char c = text.byte(pos + i);
    return rule == CaseRule::kFolded && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      // Case folding makes the long s, U+017F, an s.
      return rule == CaseRule::kFolded && text.has("\u017F", pos + 1) ? 3 : 0;
  }
}

// `\s*[\r\n]+` when `stop_at_newline`, then `\s+(?!\S)|\s+`: a run that text follows leaves its last character to
// that text, unless it is the only one. `pos` where there is no whitespace.
size_t end_of_whitespace(ScannedText& text, size_t pos, bool stop_at_newline) {
  size_t end = pos;
  size_t last = pos;
  size_t after_newline = pos;
  for (Char c = text.at(end); c.in(kWhitespace); c = text.at(end)) {
    last = end;
    end = c.end;
    if (c.in(kNewlines)) after_newline = end;
  }
  if (stop_at_newline && after_newline > pos) return after_newline;
  return end == text.size() || last == pos ? end : last;
}

// `\p{N}{1,max_digits}`
size_t end_of_numbers(ScannedText& text, size_t pos, int max_digits) {
  for (int n = 0; n < max_digits; ++n) {
    const Char c = text.at(pos);
    if (!c.in(kNumbers)) break;
    pos = c.end;
  }
  return pos;
}

// ` ?[set]+[\r\n]*`, with slashes among the newlines for the families that say so; `pos` for no match.
size_t end_of_others(ScannedText& text, size_t pos, CharSet set, bool with_slashes) {
  const size_t begin = text.byte(pos) == ' ' ? pos + 1 : pos;
  size_t end = text.end_of_run(begin, set);
  if (end == begin) return pos;
  for (char c = text.byte(end); c == '\r' || c == '\n' || (with_slashes && c == '/'); c = text.byte(end)) ++end;
  return end;
}

// `\s?[set]+`. The whitespace is never in the set.
size_t end_of_spaced_run(ScannedText& text, size_t pos, CharSet set) {
  const Char first = text.at(pos);
  const size_t begin = first.in(kWhitespace) ? first.end : pos;
  const size_t end = text.end_of_run(begin, set);
  return end == begin ? pos : end;
}

// The form that Llama 3 and Qwen share: contractions, words with one character before them, digits, everything else.
// `letters` is what words are made of.
size_t scan_words(ScannedText& text, size_t pos, CharSet letters, int max_digits) {
  if (const size_t length = contraction_length<CaseRule::kFolded>(text, pos)) return pos + length;
  const Char first = text.at(pos);
  if (first.in(letters)) return text.end_of_run(first.end, letters);
  if (first.in(kNumbers)) return end_of_numbers(text, pos, max_digits);
  if (!first.in(kNewlines)) {
    if (const size_t end = text.end_of_run(first.end, letters); end > first.end) return end;
  }
  if (const size_t end = end_of_others(text, pos, ~(kWhitespace | letters | kNumbers), false); end > pos) return end;
  return end_of_whitespace(text, pos, true);
}

// Words of TEKKEN and O200K: what may be a capital, then what may be a small letter.
constexpr CharSet kWordHead = {CharClass::kUpper, CharClass::kLetter, CharClass::kMark};
constexpr CharSet kWordTail = {CharClass::kLower, CharClass::kLetter, CharClass::kMark};

// `[head]*[tail]+`; `pos` for no match. The head gives back characters until a tail can begin.
size_t end_of_cased_word(ScannedText& text, size_t pos) {
  size_t head_end = pos;
  size_t last_tail_end = pos;  // of the last character in the head that may be a tail too
  for (Char c = text.at(pos); c.in(kWordHead); c = text.at(head_end)) {
    head_end = c.end;
    if (c.in(kWordTail)) last_tail_end = head_end;
  }
  const size_t end = text.end_of_run(head_end, kWordTail);
  return end > head_end ? end : last_tail_end;
}

// The first two alternatives, without contractions: with a character before the word, then without it. `pos` for none.
size_t end_of_prefixed_word(ScannedText& text, size_t pos) {
  const Char first = text.at(pos);
  const bool may_prefix = !first.in(kNewlines | kLetters | kNumbers);
  const bool may_begin = first.in(kLetters | kMarks);
  if (may_prefix) {
    if (const size_t end = end_of_cased_word(text, first.end); end > first.end) return end;
  }
  if (may_begin) {
    if (const size_t end = end_of_cased_word(text, pos); end > pos) return end;
  }
  if (may_prefix) {
    if (const size_t end = text.end_of_run(first.end, kWordHead); end > first.end) return end;
  }
  return may_begin ? text.end_of_run(pos, kWordHead) : pos;
}

size_t scan_cased_words(ScannedText& text, size_t pos, int max_digits, bool with_contractions) {
  if (const size_t end = end_of_prefixed_word(text, pos); end > pos) {
    return with_contractions ? end + contraction_length<CaseRule::kFolded>(text, end) : end;
  }
  if (const size_t end = end_of_numbers(text, pos, max_digits); end > pos) return end;
  if (const size_t end = end_of_others(text, pos, ~(kWhitespace | kLetters | kNumbers), true); end > pos) return end;
  return end_of_whitespace(text, pos, true);
}

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

size_t scan_gpt2(ScannedText& text, size_t pos) {
  if (const size_t length = contraction_length<CaseRule::kSensitive>(text, pos)) return pos + length;
  const size_t begin = text.byte(pos) == ' ' ? pos + 1 : pos;
  const Char first = text.at(begin);
  for (const CharSet set : {kLetters, kNumbers, ~(kWhitespace | kLetters | kNumbers)}) {
    if (first.in(set)) return text.end_of_run(first.end, set);
  }
  return end_of_whitespace(text, pos, false);
}

size_t scan_llama3(ScannedText& text, size_t pos) { return scan_words(text, pos, kLetters, 3); }
size_t scan_qwen2(ScannedText& text, size_t pos) { return scan_words(text, pos, kLetters, 1); }
size_t scan_qwen35(ScannedText& text, size_t pos) { return scan_words(text, pos, kLetters | kMarks, 1); }

size_t scan_tekken(ScannedText& text, size_t pos) { return scan_cased_words(text, pos, 1, false); }
size_t scan_o200k(ScannedText& text, size_t pos) { return scan_cased_words(text, pos, 3, true); }

size_t scan_deepseek_v3(ScannedText& text, size_t pos) {
  constexpr CharSet kWord = kLetters | kMarks;
  constexpr CharSet kSigns = kPunctuation | kSymbols;
  const Char first = text.at(pos);
  const bool is_ascii = first.end == pos + 1;
  if (first.in(kSigns) && is_ascii && is_ascii_letter(text.byte(first.end))) {
    size_t end = first.end;
    while (is_ascii_letter(text.byte(end))) ++end;
    return end;
  }
  if (first.in(kWord)) return text.end_of_run(first.end, kWord);
  if (!first.in(kNewlines | kSigns)) {
    if (const size_t end = text.end_of_run(first.end, kWord); end > first.end) return end;
  }
  if (const size_t end = end_of_others(text, pos, kSigns, false); end > pos) return end;
  return end_of_whitespace(text, pos, true);
}

size_t scan_one_number(ScannedText& text, size_t pos) { return end_of_numbers(text, pos, 1); }
size_t scan_up_to_three_numbers(ScannedText& text, size_t pos) { return end_of_numbers(text, pos, 3); }
size_t scan_numbers(ScannedText& text, size_t pos) { return text.end_of_run(pos, kNumbers); }

size_t scan_three_ascii_digits(ScannedText& text, size_t pos) {
  for (size_t i = 0; i < 3; ++i) {
    if (!is_ascii_digit(text.byte(pos + i))) return pos;
  }
  return pos + 3;
}

size_t scan_thousands(ScannedText& text, size_t pos) {
  constexpr CharSet kDigits = {CharClass::kDigit};
  constexpr CharSet kWord = kLetters | kMarks | kDigits | CharSet{CharClass::kConnector};
  ScannedText::RunAhead& ahead = text.ahead;
  if (pos >= ahead.end) {
    ahead = {pos, 0};
    for (Char c = text.at(pos); c.in(kDigits); c = text.at(c.end)) ahead = {c.end, ahead.n_to_go + 1};
    if (text.at(ahead.end).in(kWord)) ahead.n_to_go = 0;
  }
  if (ahead.n_to_go == 0) return pos;
  const size_t n = (ahead.n_to_go - 1) % 3 + 1;
  ahead.n_to_go -= n;
  return end_of_numbers(text, pos, static_cast<int>(n));
}

size_t scan_newline(ScannedText& text, size_t pos) { return text.at(pos).in(kNewlines) ? pos + 1 : pos; }

size_t scan_trailing_whitespace(ScannedText& text, size_t pos) {
  if (pos >= text.ahead.end) text.ahead.end = text.end_of_run(pos, kWhitespace);
  return text.ahead.end == text.size() ? text.size() : pos;
}

size_t scan_letters(ScannedText& text, size_t pos) { return end_of_spaced_run(text, pos, kLetters); }
size_t scan_punctuation(ScannedText& text, size_t pos) { return end_of_spaced_run(text, pos, kPunctuation); }

// Of the symbols, only those of ASCII.
size_t scan_falcon_punctuation(ScannedText& text, size_t pos) {
  for (Char c = text.at(pos); c.in(kPunctuation | kSymbols); c = text.at(pos)) {
    if (c.in(kSymbols) && c.end > pos + 1) break;
    pos = c.end;
  }
  return pos;
}

}  // namespace tempo9::tokenizer
