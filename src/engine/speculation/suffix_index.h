// Drafts from the text itself: what followed when the last tokens stood there before. Edits, tool results and JSON
// repeat much of their prompt, and looking it up costs next to nothing (spec performance section 11).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tempo9::engine {

// One text, which grows at its end.
class SuffixIndex {
 public:
  // Fewer equal tokens are too often chance.
  static constexpr size_t kMinMatch = 4;

  // Takes in what `tokens` has beyond the tokens taken in before. REQUIRES: it begins with those.
  void extend(std::span<const int32_t> tokens);
  // Appends to `drafts` at most `n` tokens: those that followed the longest match of the text's end, the latest of
  // several. A match that runs into the end goes round, as a repeated text does. REQUIRES: extend(tokens).
  void propose(std::span<const int32_t> tokens, size_t n, std::vector<int32_t>& drafts) const;

 private:
  static uint64_t hash_before(std::span<const int32_t> tokens, size_t end);

  // A place is an index into the text with kMinMatch tokens before it and a token at it.
  static constexpr uint32_t kNone = UINT32_MAX;
  std::unordered_map<uint64_t, uint32_t> latest_;  // place, by the hash of the tokens before it
  std::vector<uint32_t> earlier_;                  // for each place, the one before it with the same hash
};

}  // namespace tempo9::engine
