// Token text to token id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tempo9::tokenizer {

// A hash table with open addressing that is filled once and then only read, by any thread. Owns copies of its keys.
class TextTable {
 public:
  static constexpr int32_t kNone = -1;

  // Room for `n_texts` insertions.
  explicit TextTable(size_t n_texts);

  // Keeps the first id of a text: returns false, and changes nothing, when the text is there already.
  bool insert(std::string_view text, int32_t id);
  // kNone when absent.
  int32_t find(std::string_view text) const;

  size_t longest() const { return longest_; }  // bytes

 private:
  struct Slot {
    uint64_t begin = 0;  // into texts_
    uint32_t length = 0;
    uint32_t tag = 0;  // high half of the hash, to skip most comparisons
    int32_t id = kNone;
  };

  // The slot that holds `text`, or the free one where it belongs.
  size_t slot_of(std::string_view text, uint64_t hash) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::string texts_;
  size_t longest_ = 0;
};

}  // namespace tempo9::tokenizer
