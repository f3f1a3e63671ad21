// Merging a row of symbols, best pair first: the loop that byte-level BPE and SentencePiece BPE share.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tokenizer/pair_table.h"
#include "tokenizer/rank_queue.h"

namespace tempo9::tokenizer {

// The bytes from `begin` to the next symbol's begin, or to the end of the row.
struct Symbol {
  int32_t id = -1;  // a token, or -1
  uint32_t begin = 0;
};

// Merges rows of symbols in place. Keeps its buffers from row to row; one thread at a time.
//
// `Rules` says what merges:
//   Merge find(const Symbol& left, const Symbol& right, uint32_t end);   right ends at byte `end`
//   void merged(const Symbol& left, const Symbol& right, uint32_t end, int32_t result);
// Among the pairs with the lowest rank the leftmost merges first.
class Merger {
 public:
  // Up to this many symbols a scan for the best pair beats a queue.
  static constexpr size_t kMaxScanned = 32;
  // With a queue, `keep_going` is asked once in so many steps.
  static constexpr size_t kStepsPerQuestion = 1 << 16;

  // Shortens `row`, whose last symbol ends at byte `end`, to what no pair merges in. False when `keep_going` said so;
  // the row is then of no use.
  template <class Rules, class KeepGoing>
  bool merge(std::vector<Symbol>& row, uint32_t end, Rules&& rules, KeepGoing&& keep_going) {
    if (row.size() < 2) return true;
    if (row.size() <= kMaxScanned) {
      merge_by_scan(row, end, rules);
      return true;
    }
    return merge_by_queue(row, end, rules, keep_going);
  }

 private:
  static constexpr uint32_t kNoSymbol = UINT32_MAX;

  struct Links {
    uint32_t previous;
    uint32_t next;
    Merge with_next;  // of this symbol and its successor, as it stands now
  };

  template <class Rules>
  static void merge_by_scan(std::vector<Symbol>& row, uint32_t end, Rules& rules) {
    std::array<Merge, kMaxScanned> pairs;  // pairs[i]: of symbols i and i + 1
    size_t n = row.size();
    const auto end_of = [&](size_t i) { return i + 1 < n ? row[i + 1].begin : end; };
    const auto look_up = [&](size_t i) { pairs[i] = rules.find(row[i], row[i + 1], end_of(i + 1)); };
    for (size_t i = 0; i + 1 < n; ++i) look_up(i);
    while (n > 1) {
      const auto last = pairs.begin() + static_cast<std::ptrdiff_t>(n - 1);
      const auto best = std::min_element(pairs.begin(), last, [](Merge a, Merge b) { return a.rank < b.rank; });
      if (!best->exists()) break;
      const auto i = static_cast<size_t>(best - pairs.begin());
      rules.merged(row[i], row[i + 1], end_of(i + 1), best->result);
      row[i].id = best->result;
      std::copy(row.begin() + static_cast<std::ptrdiff_t>(i + 2), row.begin() + static_cast<std::ptrdiff_t>(n),
                row.begin() + static_cast<std::ptrdiff_t>(i + 1));
      std::copy(best + 1, last, best);
      --n;
      if (i + 1 < n) look_up(i);
      if (i > 0) look_up(i - 1);
    }
    row.resize(n);
  }

  template <class Rules, class KeepGoing>
  bool merge_by_queue(std::vector<Symbol>& row, uint32_t end, Rules& rules, KeepGoing& keep_going) {
    const auto n = static_cast<uint32_t>(row.size());
    links_.resize(n);
    queue_.clear();
    const auto end_of = [&](uint32_t i) { return links_[i].next == kNoSymbol ? end : row[links_[i].next].begin; };
    const auto look_up = [&](uint32_t i) {
      const uint32_t right = links_[i].next;
      links_[i].with_next = right == kNoSymbol ? Merge{} : rules.find(row[i], row[right], end_of(right));
      if (links_[i].with_next.exists()) queue_.push(links_[i].with_next.rank, i);
    };
    for (uint32_t i = 0; i < n; ++i) links_[i] = {i - 1, i + 1 == n ? kNoSymbol : i + 1, {}};
    links_[0].previous = kNoSymbol;
    for (uint32_t i = 0; i < n; ++i) look_up(i);
    for (size_t step = 1; !queue_.empty(); ++step) {
      if (step % kStepsPerQuestion == 0 && !keep_going()) return false;
      const auto [rank, left] = queue_.pop();
      // An entry is stale when the pair at its position has another rank by now; if it has the same one, it does not
      // matter which of them was pushed for it.
      if (links_[left].with_next.rank != rank) continue;
      const uint32_t right = links_[left].next;
      const int32_t result = links_[left].with_next.result;
      rules.merged(row[left], row[right], end_of(right), result);
      row[left].id = result;
      links_[left].next = links_[right].next;
      links_[right].with_next = {};
      if (links_[left].next != kNoSymbol) links_[links_[left].next].previous = left;
      if (links_[left].previous != kNoSymbol) look_up(links_[left].previous);  // first, so that positions ascend
      look_up(left);
    }
    size_t n_left = 0;
    for (uint32_t i = 0; i != kNoSymbol; i = links_[i].next) row[n_left++] = row[i];
    row.resize(n_left);
    return true;
  }

  std::vector<Links> links_;
  RankQueue queue_;
};

}  // namespace tempo9::tokenizer
