// Positions in the order of their rank and, among equals, of their place: what is left to merge in a row of symbols.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace tempo9::tokenizer {

// One bucket per rank, since a long text has few ranks beside its positions: the cost of a position does not grow with
// the length of the text, as it would in a heap of positions. A bucket is sorted once, when its turn comes, in linear
// time; what comes later for the same rank goes into a heap of its own, which stays small.
class RankQueue {
 public:
  struct Entry {
    uint32_t rank = 0;
    uint32_t position = 0;
  };

  // Empties the queue. Memory stays for the next use.
  void clear() {
    for (size_t i = 0; i < n_buckets_; ++i) {
      slots_[buckets_[i].slot] = kNone;
      buckets_[i].reset();
    }
    n_buckets_ = 0;
    open_.clear();
  }

  bool empty() const { return open_.empty(); }

  void push(uint32_t rank, uint32_t position) {
    Bucket& bucket = buckets_[index_of(rank)];
    if (bucket.is_empty()) open(bucket);
    if (!bucket.is_sorted) {
      bucket.positions.push_back(position);
    } else {
      bucket.late.push_back(position);
      std::ranges::push_heap(bucket.late, std::greater<>());
    }
  }

  // Takes the lowest position of the lowest rank. REQUIRES: not empty.
  Entry pop() {
    Bucket& bucket = buckets_[static_cast<uint32_t>(open_.front())];
    if (!bucket.is_sorted) sort(bucket);
    const Entry entry = {bucket.rank, bucket.pop()};
    if (bucket.is_empty()) {
      bucket.reset();
      std::ranges::pop_heap(open_, std::greater<>());
      open_.pop_back();
    }
    return entry;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Bucket {
    uint32_t rank = 0;
    uint32_t slot = 0;
    bool is_sorted = false;
    std::vector<uint32_t> positions;  // those before `next` are taken
    size_t next = 0;
    std::vector<uint32_t> late;  // a heap, of what came after the sort

    bool is_empty() const { return next == positions.size() && late.empty(); }
    void reset() {
      is_sorted = false;
      positions.clear();
      next = 0;
      late.clear();
    }
    uint32_t pop() {
      if (late.empty() || (next < positions.size() && positions[next] <= late.front())) return positions[next++];
      std::ranges::pop_heap(late, std::greater<>());
      const uint32_t position = late.back();
      late.pop_back();
      return position;
    }
  };

  void open(const Bucket& bucket) {
    open_.push_back(uint64_t{bucket.rank} << 32 | static_cast<uint64_t>(&bucket - buckets_.data()));
    std::ranges::push_heap(open_, std::greater<>());
  }

  void sort(Bucket& bucket) {
    bucket.is_sorted = true;
    if (std::ranges::is_sorted(bucket.positions)) return;
    constexpr size_t kFewPositions = 1024;  // below, counting costs more than comparing
    if (bucket.positions.size() <= kFewPositions) {
      std::ranges::sort(bucket.positions);
    } else {
      sort_by_digits(bucket.positions);
    }
  }

  // Least significant digit first; each pass keeps the order of the one before.
  void sort_by_digits(std::vector<uint32_t>& positions) {
    constexpr int kBits = 11;
    scratch_.resize(positions.size());
    for (int shift = 0; shift < 32; shift += kBits) {
      std::array<size_t, 1 << kBits> ends{};
      const auto digit = [shift](uint32_t x) { return x >> shift & ((1u << kBits) - 1); };
      for (const uint32_t x : positions) ++ends[digit(x)];
      size_t begin = 0;
      for (size_t& end : ends) begin += std::exchange(end, begin);
      for (const uint32_t x : positions) scratch_[ends[digit(x)]++] = x;
      positions.swap(scratch_);
    }
  }

  // The bucket of a rank, by a hash table with open addressing that is at most half full.
  uint32_t index_of(uint32_t rank) {
    if (last_ < n_buckets_ && buckets_[last_].rank == rank) return last_;
    if (2 * (n_buckets_ + 1) > slots_.size()) grow();
    size_t slot = home_of(rank);
    for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
      if (buckets_[slots_[slot]].rank == rank) return last_ = slots_[slot];
    }
    if (n_buckets_ == buckets_.size()) buckets_.emplace_back();
    last_ = static_cast<uint32_t>(n_buckets_++);
    buckets_[last_].rank = rank;
    buckets_[last_].slot = static_cast<uint32_t>(slot);
    slots_[slot] = last_;
    return last_;
  }

  size_t home_of(uint32_t rank) const { return (rank * 0x9E3779B1u >> 7) & (slots_.size() - 1); }

  void grow() {
    slots_.assign(std::max<size_t>(64, 2 * slots_.size()), kNone);
    for (size_t i = 0; i < n_buckets_; ++i) {
      size_t slot = home_of(buckets_[i].rank);
      while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<uint32_t>(i);
      buckets_[i].slot = static_cast<uint32_t>(slot);
    }
  }

  std::vector<Bucket> buckets_;  // the first n_buckets_ have a rank
  size_t n_buckets_ = 0;
  uint32_t last_ = 0;            // the bucket asked for last: runs ask for one again and again
  std::vector<uint32_t> slots_;  // bucket, or kNone
  std::vector<uint64_t> open_;   // rank and bucket of those that are not empty: a heap
  std::vector<uint32_t> scratch_;
};

}  // namespace tempo9::tokenizer
