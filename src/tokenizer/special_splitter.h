// Finding special tokens in text: leftmost, and longest at that place (spec tokenizers 3.2, 3.4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace tempo9::tokenizer {

// Answers, for ascending positions, where a special token that begins there must end and whether it may be a guarded
// one: a match lies in one trusted range or in one gap between them.
class TrustCursor {
 public:
  // No limits: guarded tokens everywhere (`trusted`) or nowhere.
  TrustCursor(bool trusted, size_t text_size) : everywhere_(trusted), text_size_(text_size) {}
  // `ranges` must outlive the cursor. REQUIRES: ascending, disjoint, inside the text.
  TrustCursor(std::span<const ByteRange> ranges, size_t text_size) : ranges_(ranges), text_size_(text_size) {}

  // REQUIRES: `pos` not below that of the call before.
  void move_to(size_t pos);
  bool trusted() const { return trusted_; }
  size_t limit() const { return limit_; }

 private:
  bool everywhere_ = false;
  std::span<const ByteRange> ranges_;
  size_t text_size_;
  bool trusted_ = false;
  size_t limit_ = 0;
};

// A trie over the texts of all special tokens. Immutable; any thread may search.
class SpecialSplitter {
 public:
  struct Match {
    size_t begin;
    size_t end;
    int32_t id;
  };

  explicit SpecialSplitter(const Vocabulary& vocabulary);

  // The first special token that begins at `pos` or after it. Time: linear in the bytes passed over, times the length
  // of the longest special token where the text is full of their beginnings.
  std::optional<Match> find_next(std::string_view text, size_t pos, TrustCursor& trust) const;

 private:
  static constexpr int32_t kNone = -1;

  struct Edge {
    uint8_t byte;
    int32_t node;
  };
  struct Node {
    std::vector<Edge> edges;
    int32_t id = kNone;
    bool guarded = false;
  };

  void add(std::string_view text, int32_t id, bool guarded);
  int32_t child(int32_t node, uint8_t byte) const;
  std::optional<Match> longest_at(std::string_view text, size_t pos, const TrustCursor& trust) const;

  std::vector<Node> nodes_;
  std::array<int32_t, 256> roots_;  // the node for each first byte
};

}  // namespace tempo9::tokenizer
