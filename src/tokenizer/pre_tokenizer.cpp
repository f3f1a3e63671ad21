#include "tokenizer/pre_tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tokenizer/characters.h"

namespace tempo9::tokenizer {
namespace {

size_t end_of_run(std::string_view text, size_t pos, CharClass char_class) {
  for (Char c = char_at(text, pos); c.char_class == char_class; c = char_at(text, pos)) pos = c.end;
  return pos;
}

// Length of the suffix of "it's", "we'll", … that begins with the apostrophe at `pos`; 0 for none.
enum class CaseRule { kSensitive, kFolded };
template <CaseRule rule>
size_t contraction_length(std::string_view text, size_t pos) {
  const std::string_view tail = text.substr(pos);
  const auto letter = [&](size_t i) -> char {
    if (i >= tail.size()) return '\0';
    const char c = tail[i];
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
      return rule == CaseRule::kFolded && tail.substr(1).starts_with("\u017F") ? 3 : 0;
  }
}

// `\s*[\r\n]+` when `stop_at_newline`, then `\s+(?!\S)|\s+`: a run that text follows leaves its last character to
// that text, unless it is the only one.
// REQUIRES: whitespace at `pos`.
size_t end_of_whitespace(std::string_view text, size_t pos, bool stop_at_newline) {
  size_t end = pos;
  size_t last = pos;
  size_t after_newline = pos;
  for (Char c = char_at(text, end); c.is_whitespace(); c = char_at(text, end)) {
    last = end;
    end = c.end;
    if (c.char_class == CharClass::kNewline) after_newline = end;
  }
  if (stop_at_newline && after_newline > pos) return after_newline;
  return end == text.size() || last == pos ? end : last;
}

size_t scan_gpt2(std::string_view text, size_t pos) {
  if (text[pos] == '\'') {
    const size_t length = contraction_length<CaseRule::kSensitive>(text, pos);
    if (length > 0) return pos + length;
  }
  const Char first = char_at(text, pos);
  if (!first.is_whitespace()) return end_of_run(text, first.end, first.char_class);
  if (text[pos] == ' ') {
    const Char next = char_at(text, first.end);
    if (next.char_class != CharClass::kEnd && !next.is_whitespace()) {
      return end_of_run(text, next.end, next.char_class);
    }
  }
  return end_of_whitespace(text, pos, false);
}

// L3 and Q2 differ in how many digits make a piece.
template <int max_digits>
size_t scan_llama3(std::string_view text, size_t pos) {
  if (text[pos] == '\'') {
    const size_t length = contraction_length<CaseRule::kFolded>(text, pos);
    if (length > 0) return pos + length;
  }
  const Char first = char_at(text, pos);
  if (first.char_class == CharClass::kLetter) return end_of_run(text, first.end, CharClass::kLetter);
  if (first.char_class == CharClass::kNumber) {
    Char digit = first;
    for (int n = 1; n < max_digits; ++n) {
      const Char next = char_at(text, digit.end);
      if (next.char_class != CharClass::kNumber) break;
      digit = next;
    }
    return digit.end;
  }
  const Char next = char_at(text, first.end);
  if (first.char_class != CharClass::kNewline && next.char_class == CharClass::kLetter) {
    return end_of_run(text, next.end, CharClass::kLetter);
  }
  const bool spaced = text[pos] == ' ' && next.char_class == CharClass::kOther;
  if (first.char_class == CharClass::kOther || spaced) {
    return end_of_run(text, end_of_run(text, first.end, CharClass::kOther), CharClass::kNewline);
  }
  return end_of_whitespace(text, pos, true);
}

size_t scan_digit(std::string_view text, size_t pos) {
  const Char c = char_at(text, pos);
  return c.char_class == CharClass::kNumber ? c.end : pos;
}

constexpr Stage kGpt2Stage = {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                              scan_gpt2};

constexpr std::array kGpt2 = {kGpt2Stage};
constexpr std::array kSingleDigitsThenGpt2 = {Stage{R"(\p{N})", scan_digit}, kGpt2Stage};
constexpr std::array kLlama3 = {Stage{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    scan_llama3<3>}};
constexpr std::array kQwen2 = {Stage{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    scan_llama3<1>}};

// To add a family: one line here, and a scanner above if its expression is new.
constexpr std::array kPreTokenizers = {
    PreTokenizer{.name = "deepseek-r1-qwen", .stages = kQwen2, .nfc = true},
    PreTokenizer{.name = "gpt-2", .stages = kGpt2},
    PreTokenizer{.name = "llama-bpe", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "llama-v3", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "llama3", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "qwen2", .stages = kQwen2, .nfc = true},
    PreTokenizer{.name = "smollm", .stages = kSingleDigitsThenGpt2},
};

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() { return kPreTokenizers; }

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto found = std::ranges::find(kPreTokenizers, name, &PreTokenizer::name);
  return found == kPreTokenizers.end() ? nullptr : &*found;
}

std::string pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const PreTokenizer& pre : kPreTokenizers) names.push_back(pre.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace tempo9::tokenizer
