#include "tokenizer/text_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tempo9::tokenizer {
namespace {

uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }
uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

}  // namespace

TextTable::TextTable(size_t n_texts) : slots_(std::bit_ceil(2 * n_texts + 1)) {}

size_t TextTable::slot_of(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id == kNone) return i;
    if (slot.tag == tag_of(hash) && std::string_view(texts_).substr(slot.begin, slot.length) == text) return i;
  }
}

bool TextTable::insert(std::string_view text, int32_t id) {
  T9_CHECK(id >= 0);
  const uint64_t hash = hash_of(text);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.id != kNone) return false;
  slot = {texts_.size(), static_cast<uint32_t>(text.size()), tag_of(hash), id};
  texts_ += text;
  longest_ = std::max(longest_, text.size());
  return true;
}

int32_t TextTable::find(std::string_view text) const {
  if (text.size() > longest_) return kNone;
  return slots_[slot_of(text, hash_of(text))].id;
}

}  // namespace tempo9::tokenizer
