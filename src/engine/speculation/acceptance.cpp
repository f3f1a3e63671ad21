#include "engine/speculation/acceptance.h"

#include <algorithm>
#include <bit>

namespace tempo9::engine {
namespace {

// 1 - 2^(-1/32)
constexpr double kWeight = 0.021428;

constexpr int64_t kWindow = 64;
// Before so many drafts the share says little.
constexpr int64_t kLeastDrafts = 16;
constexpr int64_t kProbeDrafts = 8;
constexpr int64_t kFirstWait = 64;
// Above the limit, so that a request at the limit does not open and close all the time.
constexpr double kReopenMargin = 0.05;

}  // namespace

AcceptanceRates AcceptanceRates::for_new_text() const {
  AcceptanceRates mixed = *this;
  for (double& rate : mixed.rates_) rate = (rate + first_guess_) / 2.0;
  return mixed;
}

void AcceptanceRates::add(int64_t n_drafts, int64_t n_accepted) {
  for (int64_t i = 0; i < std::min(n_drafts, n_accepted + 1); ++i) {
    double& rate = rates_[static_cast<size_t>(i)];
    rate += kWeight * ((i < n_accepted ? 1.0 : 0.0) - rate);
  }
}

int64_t AcceptanceGate::max_depth(int64_t n_answer) const {
  if (state_ == State::kOpen) return kMaxDepth;
  return n_answer >= next_probe_ ? 1 : 0;
}

double AcceptanceGate::share() const {
  return static_cast<double>(std::popcount(last_)) / static_cast<double>(std::max<int64_t>(n_last_, 1));
}

void AcceptanceGate::close(int64_t n_answer) {
  if (state_ == State::kOpen) ++n_closings_;
  wait_ = state_ == State::kOpen ? kFirstWait : 2 * wait_;
  state_ = State::kProbing;
  next_probe_ = n_answer + wait_;
  last_ = 0;
  n_last_ = 0;
}

void AcceptanceGate::add(int64_t n_drafts, int64_t n_accepted, int64_t n_answer) {
  for (int64_t i = 0; i < n_drafts; ++i) last_ = last_ << 1 | (i < n_accepted ? 1u : 0u);
  n_last_ = std::min(kWindow, n_last_ + n_drafts);
  if (state_ == State::kOpen) {
    if (n_last_ >= kLeastDrafts && share() < min_) close(n_answer);
  } else if (n_last_ >= kProbeDrafts) {
    if (share() >= min_ + kReopenMargin) {
      state_ = State::kOpen;
    } else {
      close(n_answer);
    }
  }
}

}  // namespace tempo9::engine
