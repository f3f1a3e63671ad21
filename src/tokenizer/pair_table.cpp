#include "tokenizer/pair_table.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace tempo9::tokenizer {

PairTable::PairTable(size_t expected_pairs) : slots_(std::bit_ceil(2 * expected_pairs + 2)) {}

void PairTable::insert(uint32_t left, uint32_t right, Merge merge) {
  T9_CHECK(merge.exists());
  if (2 * (n_used_ + 1) > slots_.size()) grow();
  const uint64_t key = key_of(left, right);
  size_t i = home_of(key);
  while (slots_[i].merge.exists()) {
    if (slots_[i].key == key) return;
    i = (i + 1) & (slots_.size() - 1);
  }
  slots_[i] = {key, merge};
  ++n_used_;
}

void PairTable::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  n_used_ = 0;
  for (const Slot& slot : old) {
    if (slot.merge.exists()) insert(static_cast<uint32_t>(slot.key >> 32), static_cast<uint32_t>(slot.key), slot.merge);
  }
}

}  // namespace tempo9::tokenizer
