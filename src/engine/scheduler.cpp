#include "engine/scheduler.h"

#include <algorithm>
#include <vector>

#include "tensor/kv_view.h"

namespace tempo9::engine {
namespace {

constexpr double kAgeingMs = 250.0;  // spec performance section 8

int64_t pages_for(int64_t n_tokens) { return (n_tokens + tensor::kPageTokens - 1) / tensor::kPageTokens; }

// Pages that a sequence holds or may count on.
int64_t promised_pages(const SequenceState& s) {
  if (!s.active || s.blocked) return 0;
  return pages_for(std::max(s.n_reserved, s.n_computed));
}

// Whether others may have its place.
bool may_give_way(const SequenceState& s) { return s.active && s.blocked && s.pass_end == 0; }

// Whose place the next one takes when all are taken: the youngest that gives way; -1: nobody's.
int32_t find_place(std::span<const SequenceState> states) {
  int32_t found = -1;
  for (size_t i = 0; i < states.size(); ++i) {
    const bool is_younger = found < 0 || states[i].order > states[static_cast<size_t>(found)].order;
    if (may_give_way(states[i]) && is_younger) found = static_cast<int32_t>(i);
  }
  return found;
}

bool is_full(std::span<const SequenceState> states, int64_t max_batch) {
  return std::ranges::count_if(states, &SequenceState::active) >= max_batch;
}

// The making of one plan.
class Planner {
 public:
  Planner(std::span<const SequenceState> sequences, const SchedulerLimits& limits, const PrefillRows& prefill)
      : limits_(limits),
        prefill_(prefill),
        states_(sequences.begin(), sequences.end()),
        planned_(sequences.size(), false) {
    pages_free_ = limits.pages_total;
    for (const SequenceState& s : states_) pages_free_ -= held_pages(s);
  }

  Plans plan() {
    resume();
    plan_decodes();
    const bool decodes = plan_.n_decode_rows > 0;
    const int64_t in_step =
        std::min(limits_.max_step_rows - plan_.n_decode_rows, decodes ? prefill_.beside_decode : prefill_.alone);
    std::vector<int32_t> prompts = prompts_in_turn(in_step);
    std::vector<int32_t> long_ones;
    if (prefill_.behind > 0 || std::ranges::any_of(states_, is_in_pass)) {
      const int64_t longest = decodes ? std::max(in_step, prefill_.in_some_steps) : in_step;
      const auto rest =
          std::ranges::stable_partition(prompts, [&](int32_t i) { return n_to_stop(state(i)) <= longest; });
      long_ones.assign(rest.begin(), rest.end());
      prompts.erase(rest.begin(), rest.end());
    }
    plan_prefills(prompts, in_step, plan_);
    plan_prefills(long_ones, std::min(limits_.max_step_rows, prefill_.behind), behind_);
    plan_drafts();
    return {.step = std::move(plan_), .behind = std::move(behind_)};
  }

 private:
  static int64_t held_pages(const SequenceState& s) {
    return s.active ? pages_for(std::max(s.n_computed, s.pass_end)) : 0;
  }
  static int64_t n_missing(const SequenceState& s) { return s.n_tokens - s.n_computed; }
  static int64_t n_to_stop(const SequenceState& s) {
    return s.stop > s.n_computed ? s.stop - s.n_computed : s.n_tokens - s.n_computed;
  }
  static bool is_in_pass(const SequenceState& s) { return s.pass_end > 0; }
  static bool can_run(const SequenceState& s) { return s.active && !s.blocked && !is_in_pass(s); }

  std::vector<int32_t> by_age(auto&& is_wanted) const {
    std::vector<int32_t> indices;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (is_wanted(states_[i])) indices.push_back(static_cast<int32_t>(i));
    }
    std::ranges::sort(indices, {}, [&](int32_t i) { return state(i).order; });
    return indices;
  }

  // Oldest first, and none before an older one.
  void resume() {
    int64_t promised = 0;
    for (const SequenceState& s : states_) promised += promised_pages(s);
    for (const int32_t i : by_age([](const SequenceState& s) { return !s.active && !s.blocked; })) {
      const int64_t needed = pages_for(state(i).n_reserved);
      if (promised + needed > limits_.pages_total && promised > 0) return;
      if (is_full(states_, limits_.max_batch)) {
        const int32_t other = find_place(states_);
        if (other < 0) return;
        pause(other);
      }
      state(i).active = true;
      promised += needed;
      plan_.resume.push_back(i);
    }
  }

  void plan_decodes() {
    for (const int32_t i : by_age([](const SequenceState& s) { return can_run(s) && n_missing(s) == 1; })) {
      if (!state(i).active) continue;  // paused meanwhile, for an older one
      if (!find_pages(i, 1)) continue;
      add_rows(i, 1, plan_);
      ++plan_.n_decode_rows;
    }
  }

  // Of sequences that decode, whose entries are the first ones.
  void plan_drafts() {
    const auto n_decoding = static_cast<size_t>(plan_.n_decode_rows);
    for (StepPlan::Rows& rows : std::span(plan_.rows).first(n_decoding)) {
      SequenceState& s = state(rows.sequence);
      const int64_t n = std::min({s.n_drafts, n_slots_at_hand(rows.sequence),
                                  limits_.max_step_rows - plan_.n_decode_rows - plan_.n_prefill_rows});
      if (n <= 0) continue;
      pages_free_ += held_pages(s);
      s.n_computed += n;
      pages_free_ -= held_pages(s);
      rows.end += n;
      rows.n_drafts = n;
      plan_.n_decode_rows += n;
    }
  }

  // Up to those that an open pass reads already.
  std::vector<int32_t> prompts_in_turn(int64_t slice) const {
    std::vector<int32_t> indices =
        by_age([](const SequenceState& s) { return is_in_pass(s) || (can_run(s) && !s.waits && n_missing(s) > 1); });
    std::ranges::stable_sort(indices, {}, [&](int32_t i) {
      return static_cast<double>(n_missing(state(i))) - static_cast<double>(slice) * state(i).waited_ms / kAgeingMs;
    });
    indices.erase(std::ranges::find_if(indices, [&](int32_t i) { return is_in_pass(state(i)); }), indices.end());
    return indices;
  }

  void plan_prefills(std::span<const int32_t> prompts, int64_t budget, StepPlan& plan) {
    for (const int32_t i : prompts) {
      if (budget <= 0) return;
      if (!state(i).active) continue;
      const int64_t least = least_rows(state(i));
      if (least > limits_.max_step_rows - plan.n_decode_rows - plan.n_prefill_rows) continue;
      if (!find_pages(i, least)) continue;
      const int64_t most = std::min({budget, n_missing(state(i)), n_slots_at_hand(i), n_to_stop(state(i))});
      const int64_t n = std::max(least, before_whole(state(i), most));
      add_rows(i, n, plan);
      plan.n_prefill_rows += n;
      budget -= n;
    }
  }

  // The range that a step of `n` rows would end inside of; null: none.
  static const tensor::IndexRange* range_at_end(const SequenceState& s, int64_t n) {
    const int64_t end = s.n_computed + n;
    const auto range = std::ranges::find_if(s.whole, [end](const auto& r) { return r.begin < end && end < r.end; });
    return range == s.whole.end() ? nullptr : &*range;
  }
  // Rows that its next step has at least.
  static int64_t least_rows(const SequenceState& s) {
    const tensor::IndexRange* range = range_at_end(s, 1);
    return range ? range->end - s.n_computed : 1;
  }
  // At most `n` rows, so that no range is cut; may be 0 or less.
  static int64_t before_whole(const SequenceState& s, int64_t n) {
    const tensor::IndexRange* range = range_at_end(s, n);
    return range ? range->begin - s.n_computed : n;
  }

  // Rows that the sequence's own pages and the free ones have room for.
  int64_t n_slots_at_hand(int32_t i) const {
    return (held_pages(state(i)) + pages_free_) * tensor::kPageTokens - state(i).n_computed;
  }

  // Pauses others until `n` rows fit. False when there is nobody left to pause.
  bool find_pages(int32_t i, int64_t n) {
    while (n_slots_at_hand(i) < n) {
      const int32_t victim = find_victim(i);
      if (victim < 0) return false;
      pause(victim);
    }
    return true;
  }

  // Whose pages `i` may take: blocked sequences before others, the younger before the older; -1 when there are none.
  int32_t find_victim(int32_t i) const {
    int32_t victim = -1;
    for (size_t j = 0; j < states_.size(); ++j) {
      const SequenceState& s = states_[j];
      const bool is_open = held_pages(s) > 0 && !planned_[j] && !is_in_pass(s) && static_cast<int32_t>(j) != i;
      if (!is_open || (!s.blocked && s.order < state(i).order)) continue;
      if (victim < 0 || std::pair(s.blocked, s.order) > std::pair(state(victim).blocked, state(victim).order)) {
        victim = static_cast<int32_t>(j);
      }
    }
    return victim;
  }

  void pause(int32_t i) {
    pages_free_ += held_pages(state(i));
    state(i).active = false;
    state(i).n_computed = 0;
    plan_.pause.push_back(i);
  }

  void add_rows(int32_t i, int64_t n, StepPlan& plan) {
    SequenceState& s = state(i);
    const int64_t begin = s.n_computed;
    pages_free_ += held_pages(s);
    s.n_computed += n;
    pages_free_ -= held_pages(s);
    planned_[static_cast<size_t>(i)] = true;
    plan.rows.push_back({.sequence = i, .begin = begin, .end = begin + n, .wants_logits = begin + n == s.n_tokens});
  }

  SequenceState& state(int32_t i) { return states_[static_cast<size_t>(i)]; }
  const SequenceState& state(int32_t i) const { return states_[static_cast<size_t>(i)]; }

  const SchedulerLimits& limits_;
  const PrefillRows& prefill_;
  std::vector<SequenceState> states_;
  std::vector<bool> planned_;
  int64_t pages_free_ = 0;
  StepPlan plan_;
  StepPlan behind_;
};

}  // namespace

bool Scheduler::admits(std::span<const SequenceState> sequences, int64_t n_reserved) const {
  const auto keeps_place = [](const SequenceState& s) { return s.active && !may_give_way(s); };
  if (std::ranges::count_if(sequences, keeps_place) >= limits_.max_batch) return false;
  if (std::ssize(sequences) >= 2 * limits_.max_batch) return false;
  int64_t promised = 0;
  for (const SequenceState& s : sequences) {
    if (!s.active && !s.blocked) return false;
    promised += promised_pages(s);
  }
  return promised + pages_for(n_reserved) <= limits_.pages_total;
}

std::optional<int32_t> Scheduler::gives_way(std::span<const SequenceState> sequences) const {
  if (!is_full(sequences, limits_.max_batch)) return std::nullopt;
  return find_place(sequences);
}

Plans Scheduler::plan(std::span<const SequenceState> sequences, const PrefillRows& prefill) const {
  return Planner(sequences, limits_, prefill).plan();
}

}  // namespace tempo9::engine
