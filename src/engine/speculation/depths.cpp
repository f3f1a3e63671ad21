#include "engine/speculation/depths.h"

#include <algorithm>
#include <utility>

namespace tempo9::engine {
namespace {

// The plan so far, and what it gives.
class Choice {
 public:
  Choice(std::span<const DraftCandidate> candidates, int64_t n_rows, int64_t n_decoding, const DraftCosts& costs)
      : candidates_(candidates),
        costs_(costs),
        n_rows_(n_rows),
        tokens_(static_cast<double>(n_decoding)),
        depths_(candidates.size(), 0),
        chances_(candidates.size(), 1.0) {}

  // Adds the best slot; false when none is worth its cost.
  bool add_best() {
    double best_rate = tokens_ / time(n_rows_, n_passes_);
    size_t best = candidates_.size();
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (depths_[i] == candidates_[i].max_depth) continue;
      const double rate = (tokens_ + chance_of_next(i)) / time(n_rows_ + 1, passes_with(i));
      if (rate <= best_rate) continue;
      best_rate = rate;
      best = i;
    }
    if (best == candidates_.size()) return false;
    chances_[best] = chance_of_next(best);
    tokens_ += chances_[best];
    n_passes_ = passes_with(best);
    ++depths_[best];
    ++n_rows_;
    return true;
  }

  std::vector<int64_t> depths() && { return std::move(depths_); }

 private:
  double chance_of_next(size_t i) const { return chances_[i] * candidates_[i].rates->at(depths_[i]); }
  int64_t passes_with(size_t i) const {
    return candidates_[i].needs_passes ? std::max(n_passes_, depths_[i] + 1) : n_passes_;
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
  std::vector<int64_t> depths_;
  std::vector<double> chances_;  // that all drafts so far are right
};

}  // namespace

std::vector<int64_t> choose_depths(std::span<const DraftCandidate> candidates, int64_t n_rows, int64_t n_decoding,
                                   int64_t max_rows, const DraftCosts& costs) {
  Choice choice(candidates, n_rows, n_decoding, costs);
  for (int64_t i = 0; i < max_rows && choice.add_best(); ++i) {
  }
  return std::move(choice).depths();
}

}  // namespace tempo9::engine
