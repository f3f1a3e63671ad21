// What drafting has gained and lost, so that it can't lose more than it has gained and a small share of the time.
#pragma once

#include <algorithm>

namespace tempo9::engine {

// In units of a pass without drafts: a machine that gets slower makes no debts.
class DraftAccount {
 public:
  // It may lose `start` to find out; what it gains beyond `most` does not count.
  DraftAccount(double start, double most) : balance_(std::min(start, most)), most_(most) {}

  // What it may still lose.
  double balance() const { return balance_; }
  // A lasting allowance: for each pass without drafts, or as much work, `share` of it.
  void allow(double passes, double share) { add(share * passes); }
  // A step with drafts took `lost` passes more for them, and spared `gained`.
  void settle(double gained, double lost) { add(gained - lost); }

 private:
  void add(double passes) { balance_ = std::min(balance_ + passes, most_); }

  double balance_;
  double most_;
};

}  // namespace tempo9::engine
