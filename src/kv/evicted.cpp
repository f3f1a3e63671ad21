#include "kv/evicted.h"

#include <xxhash.h>

namespace tempo9::kv {
namespace {

uint64_t hash_of(std::span<const int32_t> text) { return XXH3_64bits(text.data(), text.size_bytes()); }

}  // namespace

void EvictedTexts::add(std::span<const int32_t> text) {
  const uint64_t hash = hash_of(text);
  order_.push_back(hash);
  hashes_.insert(hash);
  if (order_.size() <= capacity_) return;
  hashes_.erase(hashes_.find(order_.front()));
  order_.pop_front();
}

bool EvictedTexts::contains(std::span<const int32_t> text) const { return hashes_.contains(hash_of(text)); }

}  // namespace tempo9::kv
