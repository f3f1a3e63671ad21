// How often drafts turn out right: learnt while requests run, and the gate that stops drafting where they do not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tempo9::engine {

// Tokens that are drafted for one step of a sequence at most.
inline constexpr int64_t kMaxDepth = 16;

// By depth, from 0: the share of drafts that are right, of those whose predecessors were.
class AcceptanceRates {
 public:
  explicit AcceptanceRates(double first_guess = 0.8) : first_guess_(first_guess) { rates_.fill(first_guess); }

  // For a new text, of which others tell only so much: as much as some eight trials of its own.
  AcceptanceRates for_new_text() const;

  double at(int64_t depth) const { return rates_[static_cast<size_t>(depth)]; }
  // The first `n_accepted` of `n_drafts` were right. Half of the weight is on the last 32 trials of a depth.
  void add(int64_t n_drafts, int64_t n_accepted);
  // A little of the way back to the first guess: what was given up is tried again some day.
  void forget();

 private:
  double first_guess_;
  std::array<double, kMaxDepth> rates_;
  std::array<double, kMaxDepth> weights_{};  // of one more trial, where above the usual one
};

// Closes when too few of a request's last drafts were right, whatever else speaks for drafting; nothing opens what it
// has closed but its own probes: after 64, 128, 256 ... tokens of the answer some single drafts (spec performance
// section 11).
class AcceptanceGate {
 public:
  // `min_acceptance`: share of the last 64 drafts. 0: never closes.
  explicit AcceptanceGate(double min_acceptance = 0.0) : min_(min_acceptance) {}

  // Tokens that may be drafted after `n_answer` tokens of the answer: kMaxDepth, 1 while it probes, or 0.
  int64_t max_depth(int64_t n_answer) const;
  void add(int64_t n_drafts, int64_t n_accepted, int64_t n_answer);
  bool is_open() const { return state_ == State::kOpen; }
  uint64_t n_closings() const { return n_closings_; }

 private:
  enum class State : uint8_t { kOpen, kProbing };
  double share() const;
  void close(int64_t n_answer);

  double min_;
  State state_ = State::kOpen;
  uint64_t last_ = 0;   // a bit per draft, the latest lowest: it was right
  int64_t n_last_ = 0;  // bits in use
  int64_t wait_ = 0;
  int64_t next_probe_ = 0;  // tokens of the answer
  uint64_t n_closings_ = 0;
};

}  // namespace tempo9::engine
