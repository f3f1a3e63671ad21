// What two adjacent symbols merge into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tempo9::tokenizer {

// Lower ranks merge first.
struct Merge {
  static constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
  uint32_t rank = kNoRank;
  int32_t result = -1;

  bool exists() const { return rank != kNoRank; }
};

// A hash table with open addressing from a pair of numbers to a merge; filled once and then only read, by any thread.
class PairTable {
 public:
  explicit PairTable(size_t expected_pairs = 0);

  // Keeps the first merge of a pair. REQUIRES: merge.exists().
  void insert(uint32_t left, uint32_t right, Merge merge);
  Merge find(uint32_t left, uint32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t i = home_of(key);; i = (i + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[i];
      if (slot.key == key || !slot.merge.exists()) return slot.merge;
    }
  }

  // Calls visit(merge) for every merge, in no order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.merge.exists()) visit(slot.merge);
    }
  }

 private:
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };

  static uint64_t key_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }
  size_t home_of(uint64_t key) const {
    // The finalizer of MurmurHash3, shortened: neighbouring ids must not land in neighbouring slots.
    key = (key ^ (key >> 32)) * 0xff51afd7ed558ccdULL;
    return static_cast<size_t>((key ^ (key >> 29)) & (slots_.size() - 1));
  }
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t n_used_ = 0;
};

}  // namespace tempo9::tokenizer
