#include "tokenizer/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace tempo9::tokenizer {
namespace {

// Jamo vowels and trailing consonants, which compose with what precedes them though they are letters.
bool is_trailing_jamo(char32_t c) { return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2); }

// Never changes and never composes with its predecessor.
bool is_inert(char32_t c) {
  if (c < 0x300) return true;
  if (is_trailing_jamo(c)) return false;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  // Every second half of a canonical composition, jamo aside, is a mark; so is everything with a combining class.
  const bool is_mark = property->category == UTF8PROC_CATEGORY_MN || property->category == UTF8PROC_CATEGORY_MC ||
                       property->category == UTF8PROC_CATEGORY_ME;
  const bool decomposes = property->decomp_seqindex != UINT16_MAX && property->decomp_type == 0;
  return !is_mark && !decomposes && property->combining_class == 0;
}

void append_decomposed(std::vector<utf8proc_int32_t>& out, char32_t c) {
  utf8proc_int32_t parts[8];  // the longest canonical decomposition has 4 code points
  int boundary = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
  const utf8proc_ssize_t n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, std::size(parts), options, &boundary);
  T9_CHECK(n > 0 && n <= static_cast<utf8proc_ssize_t>(std::size(parts)));
  out.insert(out.end(), parts, parts + n);
}

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Canonical ordering: each run of code points with a combining class is sorted by it, stably.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  const auto is_starter = [](utf8proc_int32_t c) { return combining_class(c) == 0; };
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if_not(begin, text.end(), is_starter);
    const auto end = std::find_if(begin, text.end(), is_starter);
    std::ranges::stable_sort(begin, end, {}, combining_class);
    begin = end;
  }
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    // Lead bytes below 0xCC encode code points below U+0300.
    if (static_cast<unsigned char>(text[pos]) < 0xCC) {
      ++pos;
    } else if (!is_inert(decode_utf8(text, pos))) {
      return false;
    }
  }
  return true;
}

std::string to_nfc(std::string_view text) {
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) append_decomposed(code_points, decode_utf8(text, pos));
  order_marks(code_points);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const utf8proc_ssize_t n =
      utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), options);
  T9_CHECK(n >= 0);
  code_points.resize(static_cast<size_t>(n));
  std::string out;
  out.reserve(text.size());
  for (const utf8proc_int32_t c : code_points) append_utf8(out, static_cast<char32_t>(c));
  return out;
}

}  // namespace tempo9::tokenizer
