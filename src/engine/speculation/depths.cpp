#include "engine/speculation/depths.h"

#include <algorithm>
#include <utility>

namespace tempo9::engine {
namespace {

// Slots that may make it worse before one makes it better.
constexpr int kLookAhead = 8;

// The plan so far, and what it gives.
class Choice {
 public:
  Choice(std::span<const DraftCandidate> candidates, int64_t n_rows, int64_t n_decoding, const DraftCosts& costs)
      : candidates_(candidates),
        costs_(costs),
        n_rows_(n_rows),
        tokens_(static_cast<double>(n_decoding)),
        time_(time(n_rows, 0)),
        may_lose_(costs.may_lose_ms),
        depths_(candidates.size()),
        chances_(candidates.size(), 1.0),
        expected_(candidates.size(), 0.0) {}

  double rate() const { return tokens_ / time_; }
  const std::vector<DraftDepth>& depths() const { return depths_; }

  // Adds the best slot, even one that does not pay; false when there is none.
  bool add_best() {
    double best_rate = 0.0;
    size_t best = candidates_.size();
    const double next = time(n_rows_ + 1, n_passes_);
    const double next_with_pass = time(n_rows_ + 1, n_passes_ + 1);
    const auto time_with = [&](size_t i) { return passes_with(i) > n_passes_ ? next_with_pass : next; };
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!may_deepen(i) || !may_cost(i, time_with(i) - time_)) continue;
      const double rate = (tokens_ + chance_of_next(i)) / time_with(i);
      if (rate <= best_rate) continue;
      best_rate = rate;
      best = i;
    }
    if (best == candidates_.size()) return false;
    const double cost = time_with(best) - time_;
    may_lose_[index_of(candidates_[best].drafter)] -= cost;
    depths_[best].cost_ms += cost;
    chances_[best] = chance_of_next(best);
    tokens_ += chances_[best];
    expected_[best] += chances_[best];
    n_passes_ = passes_with(best);
    ++depths_[best].n;
    ++n_rows_;
    time_ += cost;
    return true;
  }

 private:
  bool may_deepen(size_t i) const {
    const int64_t n = depths_[i].n;
    if (n == candidates_[i].max_depth) return false;
    return n == 0 || expected_[i] + chance_of_next(i) >= candidates_[i].min_share * static_cast<double>(n + 1);
  }
  bool may_cost(size_t i, double ms) const {
    return depths_[i].cost_ms + ms <= candidates_[i].may_lose_ms && ms <= may_lose_[index_of(candidates_[i].drafter)];
  }
  double chance_of_next(size_t i) const { return chances_[i] * candidates_[i].rates->at(depths_[i].n); }
  int64_t passes_with(size_t i) const {
    return candidates_[i].needs_passes ? std::max(n_passes_, depths_[i].n + 1) : n_passes_;
  }
  double time(int64_t n_rows, int64_t n_passes) const {
    const double drafting =
        n_passes > 0 ? costs_.first_pass_ms + static_cast<double>(n_passes - 1) * costs_.next_pass_ms : 0.0;
    return costs_.step.predict(n_rows) + drafting;
  }

  std::span<const DraftCandidate> candidates_;
  const DraftCosts& costs_;
  int64_t n_rows_;
  int64_t n_passes_ = 0;
  double tokens_;
  double time_;
  std::array<double, kDrafters> may_lose_;
  std::vector<DraftDepth> depths_;
  std::vector<double> chances_;   // that all drafts so far are right
  std::vector<double> expected_;  // drafts that are right
};

}  // namespace

std::vector<DraftDepth> choose_depths(std::span<const DraftCandidate> candidates, int64_t n_rows, int64_t n_decoding,
                                      int64_t max_rows, const DraftCosts& costs) {
  Choice choice(candidates, n_rows, n_decoding, costs);
  double best_rate = choice.rate();
  std::vector<DraftDepth> best = choice.depths();
  int n_worse = 0;
  for (int64_t i = 0; i < max_rows && n_worse < kLookAhead && choice.add_best(); ++i) {
    ++n_worse;
    if (choice.rate() <= best_rate) continue;
    best_rate = choice.rate();
    best = choice.depths();
    n_worse = 0;
  }
  return best;
}

}  // namespace tempo9::engine
