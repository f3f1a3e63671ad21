#include "engine/speculation/acceptance.h"

#include <algorithm>
#include <bit>

namespace tempo9::engine {
namespace {

// 1 - 2^(-1/32)
constexpr double kWeight = 0.021428;
// The first guess counts as eight trials: then 1/9, 1/10 ... each.
constexpr double kFirstWeight = 1.0 / 9.0;
constexpr double kForgotten = 0.02;

constexpr int64_t kWindow = 64;
// Before so many drafts the share says little.
constexpr int64_t kLeastDrafts = 16;
constexpr int64_t kProbeDrafts = 8;
constexpr int64_t kFirstWait = 64;
// Above the limit, so that a request at the limit does not open and close all the time.
constexpr double kReopenMargin = 0.05;

}  // namespace

AcceptanceRates AcceptanceRates::for_new_text() const {
  AcceptanceRates rates = *this;
  rates.weights_.fill(kFirstWeight);
  return rates;
}

void AcceptanceRates::forget() {
  for (double& rate : rates_) rate += kForgotten * (first_guess_ - rate);
}

void AcceptanceRates::add(int64_t n_drafts, int64_t n_accepted) {
  for (int64_t i = 0; i < std::min(n_drafts, n_accepted + 1); ++i) {
    double& rate = rates_[static_cast<size_t>(i)];
    double& weight = weights_[static_cast<size_t>(i)];
    rate += std::max(weight, kWeight) * ((i < n_accepted ? 1.0 : 0.0) - rate);
    weight /= 1.0 + weight;
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
    return;
  }
  // Once too many are wrong for those that are left to make up for it, these are spared.
  const double needed = (min_ + kReopenMargin) * static_cast<double>(kProbeDrafts);
  const auto possible = static_cast<double>(std::popcount(last_) + std::max<int64_t>(kProbeDrafts - n_last_, 0));
  if (possible < needed) {
    close(n_answer);
  } else if (n_last_ >= kProbeDrafts) {
    state_ = State::kOpen;
  }
}

}  // namespace tempo9::engine
