#include "engine/sampler/candidates.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"

namespace tempo9::engine {
namespace {

bool precedes(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

double total_weight(std::span<const Candidate> candidates) {
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += static_cast<double>(candidate.weight);
  return total;
}

// Moves the median of the first, middle and last candidate to the front.
void move_pivot_to_front(std::span<Candidate> range) {
  Candidate& a = range.front();
  Candidate& b = range[range.size() / 2];
  Candidate& c = range.back();
  if (precedes(b, a) != precedes(b, c)) {
    std::swap(a, b);
  } else if (precedes(c, a) != precedes(c, b)) {
    std::swap(a, c);
  }
}

// The last candidate of the shortest prefix that holds `mass`: quickselect by weight instead of by count.
Candidate find_last_of_mass(std::span<Candidate> range, double mass) {
  while (true) {
    move_pivot_to_front(range);
    const Candidate pivot = range.front();
    const std::span<Candidate> others = range.subspan(1);
    const auto middle =
        std::partition(others.begin(), others.end(), [&](const Candidate& c) { return precedes(c, pivot); });
    const std::span<Candidate> before(others.begin(), middle);
    const std::span<Candidate> after(middle, others.end());
    const double mass_before = total_weight(before);
    if (!before.empty() && mass_before >= mass) {
      range = before;
    } else if (after.empty() || mass_before + static_cast<double>(pivot.weight) >= mass) {
      return pivot;
    } else {
      mass -= mass_before + static_cast<double>(pivot.weight);
      range = after;
    }
  }
}

}  // namespace

void select_top(std::span<const float> logits, int64_t k, std::vector<Candidate>& top) {
  top.clear();
  if (k <= 0) return;
  // A heap whose front is the worst of the kept ones. Ids ascend, so an equal logit never displaces a kept one.
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == -INFINITY) continue;
    const bool is_full = static_cast<int64_t>(top.size()) == k;
    if (is_full && logits[id] <= top.front().logit) continue;
    if (is_full) {
      std::pop_heap(top.begin(), top.end(), precedes);
      top.pop_back();
    }
    top.push_back({.id = static_cast<int32_t>(id), .logit = logits[id]});
    std::push_heap(top.begin(), top.end(), precedes);
  }
  std::sort_heap(top.begin(), top.end(), precedes);
}

void select_all(std::span<const float> logits, std::vector<Candidate>& all) {
  all.clear();
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] != -INFINITY) all.push_back({.id = static_cast<int32_t>(id), .logit = logits[id]});
  }
}

void set_weights(std::span<Candidate> candidates, float temperature) {
  const float largest = std::ranges::max(candidates, {}, &Candidate::logit).logit;
  for (Candidate& candidate : candidates) candidate.weight = std::exp((candidate.logit - largest) / temperature);
}

void keep_top_p(std::vector<Candidate>& candidates, double top_p, std::vector<Candidate>& scratch) {
  const double mass = top_p * total_weight(candidates);
  // Most often the prefix ends among the few heavy ones, which spares the copy of a whole vocabulary.
  constexpr float kHeavy = 0x1.0p-10f;
  scratch.clear();
  std::ranges::copy_if(candidates, std::back_inserter(scratch), [](const Candidate& c) { return c.weight >= kHeavy; });
  if (total_weight(scratch) < mass) scratch = candidates;
  const Candidate last = find_last_of_mass(scratch, mass);
  std::erase_if(candidates, [&](const Candidate& candidate) { return precedes(last, candidate); });
}

void keep_min_p(std::vector<Candidate>& candidates, float min_p) {
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.weight < min_p; });
}

int32_t draw(std::span<const Candidate> candidates, double u) {
  T9_CHECK(!candidates.empty());
  const double target = u * total_weight(candidates);
  double sum = 0.0;
  for (const Candidate& candidate : candidates) {
    sum += static_cast<double>(candidate.weight);
    if (sum > target) return candidate.id;
  }
  return std::ranges::max(candidates, {}, &Candidate::weight).id;  // u * total was rounded up to total
}

}  // namespace tempo9::engine
