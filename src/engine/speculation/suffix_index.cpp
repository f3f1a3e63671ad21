#include "engine/speculation/suffix_index.h"

#include <algorithm>
#include <utility>

#include "engine/sampler/random.h"

namespace tempo9::engine {
namespace {

// Bound the work of one proposal. Matches are told apart by their length up to this.
constexpr int kMaxPlaces = 32;
constexpr size_t kMaxMatch = 64;

size_t match_length(std::span<const int32_t> tokens, size_t place) {
  size_t n = 0;
  while (n < kMaxMatch && n < place && tokens[place - 1 - n] == tokens[tokens.size() - 1 - n]) ++n;
  return n;
}

}  // namespace

uint64_t SuffixIndex::hash_before(std::span<const int32_t> tokens, size_t end) {
  uint64_t hash = 0;
  for (size_t i = end - kMinMatch; i < end; ++i) hash = mix64(hash + static_cast<uint64_t>(tokens[i]) + 1);
  return hash;
}

void SuffixIndex::extend(std::span<const int32_t> tokens) {
  earlier_.resize(std::min(earlier_.size(), tokens.size()));
  for (size_t place = earlier_.size(); place < tokens.size(); ++place) {
    earlier_.push_back(kNone);
    if (place < kMinMatch) continue;
    const auto [entry, is_new] = latest_.try_emplace(hash_before(tokens, place), static_cast<uint32_t>(place));
    if (!is_new) earlier_.back() = std::exchange(entry->second, static_cast<uint32_t>(place));
  }
}

void SuffixIndex::propose(std::span<const int32_t> tokens, size_t n, std::vector<int32_t>& drafts) const {
  if (tokens.size() < kMinMatch) return;
  const auto latest = latest_.find(hash_before(tokens, tokens.size()));
  if (latest == latest_.end()) return;
  size_t best = 0;
  size_t best_length = kMinMatch - 1;
  uint32_t place = latest->second;
  for (int i = 0; i < kMaxPlaces && place != kNone; ++i, place = earlier_[place]) {
    const size_t length = match_length(tokens, place);
    if (length <= best_length) continue;
    best = place;
    best_length = length;
  }
  if (best == 0) return;
  const size_t first = drafts.size();
  for (size_t i = 0; i < n; ++i) {
    const size_t from = best + i;
    drafts.push_back(from < tokens.size() ? tokens[from] : drafts[first + from - tokens.size()]);
  }
}

}  // namespace tempo9::engine
