// Which texts' pages made room lately, so that a prompt that is read again can be told why. Knows numbers only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_set>

namespace tempo9::kv {

// Texts by a hash of their tokens: two may be taken for one, which only makes an explanation wrong.
class EvictedTexts {
 public:
  explicit EvictedTexts(size_t capacity) : capacity_(capacity) {}

  // The page at the end of this text, which begins with the text's first token.
  void add(std::span<const int32_t> text);
  bool contains(std::span<const int32_t> text) const;

 private:
  size_t capacity_;
  std::deque<uint64_t> order_;  // the oldest first; entries may repeat
  std::unordered_multiset<uint64_t> hashes_;
};

}  // namespace tempo9::kv
