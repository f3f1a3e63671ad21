// How each byte-level family cuts text into the pieces inside which merges run (spec tokenizers 1.3 to 1.5).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "tokenizer/scanned_text.h"

namespace tempo9::tokenizer {

// One regular expression of a family, as a scanner that takes linear time and constant stack.
struct Stage {
  // The expression as the models publish it. Tests run it through PCRE2 and compare; nothing else reads it.
  const char* pattern;
  // End of the match that begins at `pos`, or `pos` where none does: see scanners.h.
  size_t (*scan)(ScannedText& text, size_t pos);
};

// One accepted value of tokenizer.ggml.pre.
struct PreTokenizer {
  std::string_view name;
  std::span<const Stage> stages;  // each is applied to every piece that the one before it left
  bool adds_bos = false;          // when the file does not say
  bool ignore_merges = false;     // a piece that is a token is emitted without merging
  bool nfc = false;               // the original tokenizer normalises
};

std::span<const PreTokenizer> pre_tokenizers();
const PreTokenizer* find_pre_tokenizer(std::string_view name);  // null when not implemented
// "gpt-2, llama-bpe, …" for messages.
std::string pre_tokenizer_names();

// Calls visit(piece) for each piece of `text` in order, as long as it returns true. Pieces are never empty and
// together make up the text; text that a stage does not match is a piece per maximal stretch.
template <class Visit>
bool for_each_piece(std::string_view text, std::span<const Stage> stages, Visit&& visit) {
  if (text.empty()) return true;
  if (stages.empty()) return visit(text);
  const Stage& stage = stages.front();
  const auto rest = stages.subspan(1);
  ScannedText scanned(text);
  size_t unmatched = 0;  // start of the stretch that nothing has matched yet
  size_t pos = 0;
  while (pos < text.size()) {
    const size_t end = stage.scan(scanned, pos);
    if (end == pos) {
      do ++pos;
      while (pos < text.size() && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80);
      continue;
    }
    if (!for_each_piece(text.substr(unmatched, pos - unmatched), rest, visit)) return false;
    if (!for_each_piece(text.substr(pos, end - pos), rest, visit)) return false;
    unmatched = pos = end;
  }
  return for_each_piece(text.substr(unmatched), rest, visit);
}

}  // namespace tempo9::tokenizer
