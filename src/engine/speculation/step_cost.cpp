#include "engine/speculation/step_cost.h"

#include <algorithm>
#include <cmath>

namespace tempo9::engine {
namespace {

// Of a pass of one row, until measured: near what memory-bound passes of few rows take.
constexpr double kFirstRow = 0.1 / 1.1;
constexpr double kForgetting = 0.98;
// How little the first guess of b counts, and the most that is ever forgotten: without a limit the uncertainty of what
// is not being measured (b, while every pass has one row) would grow until one noisy sample decided.
constexpr double kMaxVariance = 100.0;
// In units of what was expected: beyond it another process has taken the core.
constexpr double kLongestStep = 3.0;
// After so many passes of one row, which say nothing about rows, each takes b so much of the way back to the first
// guess: so that rows which were once found too dear are tried again some day.
constexpr int64_t kKept = 64;
constexpr double kReturn = 0.002;

// The machine's speed changes sooner than how passes of different sizes compare.
constexpr double kSpeedWeight = 0.1;
constexpr double kLeastLevelWeight = 0.1;
// A sample counts for a level only up to so much of it: the rest is other processes.
constexpr double kMostChange = 0.5;
// What the neighbours say counts as so many samples, and each pass takes a little from those of all counts: what one
// bad sample has shown to be dear is tried again some day.
constexpr double kNeighbours = 0.5;
constexpr double kKeptSamples = 0.9985;
constexpr double kLeastSamples = 0.1;  // below, none
constexpr double kKnownSamples = 8.0;  // before, they say nothing about the machine

}  // namespace

StepCost::StepCost(ExpertCounts experts) : experts_(experts), base_(1.0 - kFirstRow), per_unit_(kFirstRow) {}

double StepCost::units(int64_t n_rows) const {
  if (experts_.n_experts == 0) return static_cast<double>(n_rows);
  const auto experts = static_cast<double>(experts_.n_experts);
  const auto used = static_cast<double>(experts_.n_used);
  return experts / used * (1.0 - std::pow(1.0 - used / experts, static_cast<double>(n_rows)));
}

double StepCost::predict(int64_t n_rows) const {
  const double guess = beside_neighbours(n_rows);
  if (n_rows > kMaxCounted || n_samples_ == 0) return guess;
  const Count& own = counts_[static_cast<size_t>(n_rows)];
  return (own.n * speed_ * own.level + kNeighbours * guess) / (own.n + kNeighbours);
}

// The line, moved to where the nearest counts are that were measured.
double StepCost::beside_neighbours(int64_t n_rows) const {
  const auto find = [&](int64_t from, int64_t step) {
    while (from >= 1 && from <= kMaxCounted && counts_[static_cast<size_t>(from)].n < kLeastSamples) from += step;
    return from >= 1 && from <= kMaxCounted ? from : 0;
  };
  const auto measured = [&](int64_t n) { return speed_ * counts_[static_cast<size_t>(n)].level; };
  const auto offset = [&](int64_t n) { return measured(n) - line(n); };
  const int64_t below = find(std::min(n_rows - 1, kMaxCounted), -1);
  const int64_t above = n_rows < kMaxCounted ? find(n_rows + 1, 1) : 0;
  if (below == 0 && above == 0) return line(n_rows);
  // Never less than a pass of fewer rows.
  if (below == 0) return std::max(line(n_rows) + offset(above), 0.5 * measured(above));
  const double least = measured(below);
  if (above == 0) return std::max(line(n_rows) + offset(below), least);
  const double share = (units(n_rows) - units(below)) / (units(above) - units(below));
  return std::max(line(n_rows) + (1.0 - share) * offset(below) + share * offset(above), least);
}

void StepCost::add(int64_t n_rows, double ms) {
  if (n_samples_ == 0) {
    const double scale = ms / line(n_rows);
    base_ *= scale;
    per_unit_ *= scale;
    covariance_ = {{{kMaxVariance, 0.0}, {0.0, kMaxVariance}}};
    speed_ = ms;
  }
  const double predicted = predict(n_rows);
  if (n_samples_ > 0 && ms > kLongestStep * predicted) ms = kLongestStep * predicted;
  errors_[static_cast<size_t>(n_samples_) % errors_.size()] = std::abs(predicted - ms) / ms;
  ++n_samples_;
  fit_line(n_rows, ms);
  count(n_rows, ms);
}

void StepCost::count(int64_t n_rows, double ms) {
  if (n_rows > kMaxCounted) return;
  for (Count& count : counts_) count.n *= kKeptSamples;
  Count& own = counts_[static_cast<size_t>(n_rows)];
  if (own.n < kLeastSamples) own = {.level = beside_neighbours(n_rows) / speed_, .n = kNeighbours};
  const double change = std::clamp(ms / (speed_ * own.level) - 1.0, -kMostChange, kMostChange);
  own.n += 1.0;
  // The level of the usual count stays, so that a machine which gets slower is not taken for passes that do.
  const bool is_usual = std::ranges::max_element(counts_, {}, &Count::n) == &own;
  if (!is_usual) own.level *= 1.0 + std::max(1.0 / own.n, kLeastLevelWeight) * change;
  if (own.n > kKnownSamples || is_usual) speed_ *= 1.0 + kSpeedWeight * change;
}

void StepCost::fit_line(int64_t n_rows, double ms) {
  const double u = units(n_rows);
  const double error = ms - line(n_rows);
  auto& p = covariance_;
  const double px[2] = {p[0][0] + p[0][1] * u, p[1][0] + p[1][1] * u};
  const double scale = kForgetting + px[0] + px[1] * u;
  base_ += px[0] / scale * error;
  per_unit_ += px[1] / scale * error;
  const bool may_forget = std::max(p[0][0], p[1][1]) < kMaxVariance;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 2; ++j) p[i][j] = (p[i][j] - px[i] * px[j] / scale) / (may_forget ? kForgetting : 1.0);
  }
  // Noise must not make rows free of cost, nor a pass. What is taken from one goes to the other, by how they hang
  // together: cut alone, the sum that passes of one row have settled would be off, and each further one would drive it
  // on (a = 0, b = 30 passes, for good).
  if (base_ < 0.0) {
    per_unit_ -= p[1][0] / p[0][0] * base_;
    base_ = 0.0;
  }
  if (per_unit_ < 0.0) {
    base_ = std::max(0.0, base_ - p[0][1] / p[1][1] * per_unit_);
    per_unit_ = 0.0;
  }
  n_single_ = n_rows == 1 ? n_single_ + 1 : 0;
  if (n_single_ > kKept) {
    const double sum = base_ + per_unit_;
    per_unit_ += kReturn * (kFirstRow * sum - per_unit_);
    base_ = sum - per_unit_;
  }
}

double StepCost::median_error() const {
  const auto n = static_cast<std::ptrdiff_t>(std::min(static_cast<size_t>(n_samples_), errors_.size()));
  if (n == 0) return 0.0;
  std::array<double, 64> sorted = errors_;
  const auto middle = sorted.begin() + n / 2;
  std::nth_element(sorted.begin(), middle, sorted.begin() + n);
  return *middle;
}

}  // namespace tempo9::engine
