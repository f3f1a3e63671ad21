#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <utility>

#include "engine/step_times.h"
#include "tensor/kv_view.h"

namespace tempo9::engine {
namespace {

using Rows = StepPlan::Rows;
constexpr SchedulerLimits kLimits{.max_batch = 8, .max_step_rows = 512, .pages_total = 1000};
constexpr PrefillRows kPrefill{.beside_decode = 40, .alone = 512};

int64_t pages_for(int64_t n_tokens) { return (n_tokens + tensor::kPageTokens - 1) / tensor::kPageTokens; }

SequenceState active(uint64_t order, int64_t n_tokens, int64_t n_computed) {
  return {.n_tokens = n_tokens, .n_computed = n_computed, .n_reserved = n_tokens, .order = order, .active = true};
}

TEST(Scheduler, APromptAloneGetsAllRows) {
  const Scheduler scheduler(kLimits);
  const std::vector<SequenceState> states{active(0, 1300, 512)};
  const StepPlan plan = scheduler.plan(states, kPrefill).step;
  EXPECT_EQ(plan.rows, (std::vector<Rows>{{0, 512, 1024, false}}));
  EXPECT_EQ(plan.n_prefill_rows, 512);
}

TEST(Scheduler, DecodesRunAndPromptsRideWithinTheBudget) {
  const Scheduler scheduler(kLimits);
  const std::vector<SequenceState> states{active(0, 101, 100), active(1, 300, 0), active(2, 51, 50)};
  const StepPlan plan = scheduler.plan(states, kPrefill).step;
  EXPECT_EQ(plan.rows, (std::vector<Rows>{{0, 100, 101, true}, {2, 50, 51, true}, {1, 0, 40, false}}));
}

TEST(Scheduler, TheShortestPromptIsFirstAndAllFitInOnePass) {
  const Scheduler scheduler(kLimits);
  const std::vector<SequenceState> states{active(0, 400, 0), active(1, 100, 0)};
  EXPECT_EQ(scheduler.plan(states, kPrefill).step.rows, (std::vector<Rows>{{1, 0, 100, true}, {0, 0, 400, true}}));
}

TEST(Scheduler, AgeingBringsALongPromptItsTurn) {
  const Scheduler scheduler(kLimits);
  std::vector<SequenceState> states{active(0, 2000, 0), active(1, 600, 0)};
  EXPECT_EQ(scheduler.plan(states, kPrefill).step.rows[0].sequence, 1);
  states[0].waited_ms = 1000.0;  // four slices of 512 are more than the difference
  EXPECT_EQ(scheduler.plan(states, kPrefill).step.rows[0].sequence, 0);
}

TEST(Scheduler, WhatDoesNotFitTheStepIsReadBehindIt) {
  const Scheduler scheduler(kLimits);
  const PrefillRows prefill{.beside_decode = 10, .alone = 100, .behind = 256};
  std::vector<SequenceState> states{active(0, 101, 100), active(1, 1300, 512)};
  Plans plans = scheduler.plan(states, prefill);
  EXPECT_EQ(plans.step.rows, (std::vector<Rows>{{0, 100, 101, true}}));
  EXPECT_EQ(plans.behind.rows, (std::vector<Rows>{{1, 512, 768, false}}));
  EXPECT_EQ(plans.behind.n_prefill_rows, 256);
  states = {active(0, 190, 0), active(1, 180, 0), active(2, 30, 0)};
  plans = scheduler.plan(states, prefill);
  EXPECT_EQ(plans.step.rows, (std::vector<Rows>{{2, 0, 30, true}}));
  EXPECT_EQ(plans.behind.rows, (std::vector<Rows>{{1, 0, 180, true}, {0, 0, 76, false}}));
  states = {active(0, 90, 0), active(1, 101, 100), active(2, 10, 0)};
  states[0].n_computed = 85;
  plans = scheduler.plan(states, {.beside_decode = 15, .alone = 100, .behind = 256});
  EXPECT_EQ(plans.step.rows, (std::vector<Rows>{{1, 100, 101, true}, {0, 85, 90, true}, {2, 0, 10, true}}));
  EXPECT_TRUE(plans.behind.rows.empty()) << "both fit the step";
  plans = scheduler.plan(states, {.beside_decode = 10, .alone = 100, .behind = 256, .in_some_steps = 40});
  EXPECT_EQ(plans.step.rows, (std::vector<Rows>{{1, 100, 101, true}, {0, 85, 90, true}, {2, 0, 5, false}}));
  EXPECT_TRUE(plans.behind.rows.empty()) << "two steps will do";
}

TEST(Scheduler, BesideAnOpenPassOnlyShorterPromptsAreRead) {
  const Scheduler scheduler(kLimits);
  const PrefillRows prefill{.beside_decode = 10, .alone = 100, .behind = 0};
  std::vector<SequenceState> states{active(0, 1300, 512), active(1, 900, 0), active(2, 60, 0), active(3, 400, 0)};
  states[0].pass_end = 768;
  const Plans plans = scheduler.plan(states, prefill);
  EXPECT_EQ(plans.step.rows, (std::vector<Rows>{{2, 0, 60, true}}))
      << "the pass comes before 900; 400 are for the next";
  EXPECT_TRUE(plans.behind.rows.empty());
}

TEST(Scheduler, AnOpenPassKeepsItsPages) {
  const Scheduler scheduler({.max_batch = 8, .max_step_rows = 512, .pages_total = 6});
  std::vector<SequenceState> states{active(0, 65, 64), active(1, 200, 64)};
  states[1].pass_end = 128;
  const Plans plans = scheduler.plan(states, {.beside_decode = 10, .alone = 100});
  EXPECT_TRUE(plans.step.rows.empty()) << "the older one finds a page when the pass has ended";
  EXPECT_TRUE(plans.step.pause.empty());
}

TEST(Scheduler, ABlockedReaderGetsNoRowsAndKeepsItsPages) {
  const Scheduler scheduler(kLimits);
  std::vector<SequenceState> states{active(0, 101, 100), active(1, 51, 50)};
  states[0].blocked = true;
  const StepPlan plan = scheduler.plan(states, kPrefill).step;
  EXPECT_EQ(plan.rows, (std::vector<Rows>{{1, 50, 51, true}}));
  EXPECT_TRUE(plan.pause.empty());
}

TEST(Scheduler, WhenPagesRunOutTheYoungestPauses) {
  const Scheduler scheduler({.max_batch = 8, .max_step_rows = 512, .pages_total = 6});
  const std::vector<SequenceState> states{active(0, 65, 64), active(2, 65, 64), active(1, 65, 64)};
  const StepPlan plan = scheduler.plan(states, kPrefill).step;
  EXPECT_EQ(plan.pause, (std::vector<int32_t>{1}));
  EXPECT_EQ(plan.rows, (std::vector<Rows>{{0, 64, 65, true}, {2, 64, 65, true}}));
}

TEST(Scheduler, ABlockedReaderPausesBeforeAYoungerOne) {
  const Scheduler scheduler({.max_batch = 8, .max_step_rows = 512, .pages_total = 6});
  std::vector<SequenceState> states{active(0, 65, 64), active(1, 65, 64), active(2, 65, 64)};
  states[0].blocked = true;
  const StepPlan plan = scheduler.plan(states, kPrefill).step;
  EXPECT_EQ(plan.pause, (std::vector<int32_t>{0}));
  EXPECT_EQ(plan.rows.size(), 2u);
}

TEST(Scheduler, WhatIsReadWholeIsNeverCut) {
  const Scheduler scheduler({.max_batch = 8, .max_step_rows = 100, .pages_total = 1000});
  const std::vector<tensor::IndexRange> whole{{30, 90}, {90, 120}, {400, 401}};
  const auto next = [&](int64_t n_computed, bool decodes, int64_t budget) {
    std::vector<SequenceState> states{active(0, 500, n_computed)};
    states[0].whole = whole;
    if (decodes) states.push_back(active(1, 101, 100));
    const StepPlan plan = scheduler.plan(states, {.beside_decode = budget, .alone = 100}).step;
    EXPECT_EQ(plan.rows.size(), decodes ? 2u : 1u);
    EXPECT_EQ(plan.n_prefill_rows, plan.rows.back().end - plan.rows.back().begin);
    return plan.rows.back().end;
  };
  EXPECT_EQ(next(0, false, 8), 90) << "an image fits, the one after it does not";
  EXPECT_EQ(next(0, true, 8), 8);
  EXPECT_EQ(next(28, true, 8), 30) << "up to the image";
  EXPECT_EQ(next(30, true, 8), 90) << "beyond the budget";
  EXPECT_EQ(next(50, true, 8), 90) << "the rest of one whose first part was found";
  EXPECT_EQ(next(90, true, 8), 120);
  EXPECT_EQ(next(89, false, 8), 189) << "the last row of one, all of the next, and text";
  EXPECT_EQ(next(120, false, 8), 220);
  EXPECT_EQ(next(399, true, 1), 400);
}

TEST(Scheduler, WhatIsReadWholeWaitsForRowsAndTakesPages) {
  const std::vector<tensor::IndexRange> whole{{10, 90}};
  const Scheduler scheduler({.max_batch = 2, .max_step_rows = 100, .pages_total = 1000});
  std::vector<SequenceState> states{active(0, 300, 210), active(1, 400, 10)};
  states[1].whole = whole;
  EXPECT_EQ(scheduler.plan(states, kPrefill).step.rows, (std::vector<Rows>{{0, 210, 300, true}})) << "10 rows are left";
  states[1].waited_ms = 2000.0;
  EXPECT_EQ(scheduler.plan(states, kPrefill).step.rows, (std::vector<Rows>{{1, 10, 110, false}}));
  // Three pages, of which a younger one has two.
  std::vector<SequenceState> tight{active(0, 95, 10), active(1, 200, 64)};
  tight[0].whole = whole;
  const StepPlan plan = Scheduler({.max_batch = 2, .max_step_rows = 100, .pages_total = 3}).plan(tight, kPrefill).step;
  EXPECT_EQ(plan.pause, (std::vector<int32_t>{1}));
  EXPECT_EQ(plan.rows, (std::vector<Rows>{{0, 10, 95, true}}));
}

TEST(Scheduler, DraftsGetTheRowsAndPagesThatAreLeft) {
  std::vector<SequenceState> states{active(0, 101, 100), active(1, 63, 62), active(2, 300, 0)};
  states[0].n_drafts = 4;
  states[1].n_drafts = 3;
  states[2].n_drafts = 5;  // still reading its prompt
  EXPECT_EQ(Scheduler(kLimits).plan(states, kPrefill).step.rows,
            (std::vector<Rows>{{0, 100, 105, true, 4}, {1, 62, 66, true, 3}, {2, 0, 40, false}}));
  EXPECT_EQ(Scheduler(kLimits).plan(states, kPrefill).step.n_decode_rows, 9);
  // Rows for 2 of the drafts only.
  EXPECT_EQ(Scheduler({.max_batch = 8, .max_step_rows = 44, .pages_total = 1000}).plan(states, kPrefill).step.rows,
            (std::vector<Rows>{{0, 100, 103, true, 2}, {1, 62, 63, true}, {2, 0, 40, false}}));
  // No page for the second one's drafts beyond slot 63: nobody pauses for them.
  states.pop_back();
  const StepPlan tight =
      Scheduler({.max_batch = 8, .max_step_rows = 512, .pages_total = 6}).plan(states, kPrefill).step;
  EXPECT_EQ(tight.rows, (std::vector<Rows>{{0, 100, 105, true, 4}, {1, 62, 64, true, 1}}));
  EXPECT_TRUE(tight.pause.empty());
}

TEST(Scheduler, PausedSequencesResumeInOrderWhenTheirPagesFit) {
  const Scheduler scheduler({.max_batch = 8, .max_step_rows = 512, .pages_total = 10});
  std::vector<SequenceState> states{active(0, 129, 128), active(1, 129, 0), active(2, 40, 0)};
  states[0].n_reserved = 256;
  states[1].active = states[2].active = false;
  EXPECT_TRUE(scheduler.plan(states, kPrefill).step.resume.empty());  // 8 + 5 > 10, and the last does not overtake
  EXPECT_FALSE(scheduler.admits(states, 1));
  states[0].n_reserved = 129;
  EXPECT_EQ(scheduler.plan(states, kPrefill).step.resume, (std::vector<int32_t>{1}));
}

TEST(Scheduler, AdmitsByBatchAndReservedPages) {
  const Scheduler scheduler({.max_batch = 2, .max_step_rows = 512, .pages_total = 10});
  EXPECT_TRUE(scheduler.admits({}, 320));
  std::vector<SequenceState> states{active(0, 129, 0)};
  EXPECT_TRUE(scheduler.admits(states, 160));
  EXPECT_FALSE(scheduler.admits(states, 161));
  states[0].blocked = true;
  EXPECT_TRUE(scheduler.admits(states, 320));
  states.push_back(active(1, 1, 0));
  EXPECT_TRUE(scheduler.admits(states, 1));
  states[0].blocked = false;
  EXPECT_FALSE(scheduler.admits(states, 1));
}

TEST(Scheduler, WhoseReaderIsBehindGivesItsPlaceToOthers) {
  const Scheduler scheduler({.max_batch = 2, .max_step_rows = 512, .pages_total = 10});
  std::vector<SequenceState> states{active(0, 33, 32), active(1, 33, 32)};
  states[0].blocked = states[1].blocked = true;
  EXPECT_EQ(scheduler.gives_way(states), 1);
  states[1].pass_end = 33;
  EXPECT_EQ(scheduler.gives_way(states), 0) << "an open pass keeps its place";
  // One that was paused comes back in the place of one whose reader is behind now, and only then.
  states[1] = active(1, 33, 32);
  states.push_back(active(2, 33, 0));
  states[2].active = false;
  EXPECT_FALSE(scheduler.admits(states, 1));
  const StepPlan plan = scheduler.plan(states, kPrefill).step;
  EXPECT_EQ(plan.pause, (std::vector<int32_t>{0}));
  EXPECT_EQ(plan.resume, (std::vector<int32_t>{2}));
  states[0].blocked = false;
  EXPECT_TRUE(scheduler.plan(states, kPrefill).step.resume.empty());
  // Those that stand still are bounded as well.
  for (SequenceState& s : states) s.blocked = true;
  EXPECT_TRUE(scheduler.admits(states, 1));
  states.push_back(states.back());
  EXPECT_FALSE(scheduler.admits(states, 1));
}

// A simulated engine: requests come at random, answers have random lengths, readers block now and then.
class Simulation {
 public:
  explicit Simulation(uint32_t seed)
      : random_(seed),
        limits_{.max_batch = 1 + below(6), .max_step_rows = 8 + below(100), .pages_total = 4 + below(20)} {}

  void run() {
    const Scheduler scheduler(limits_);
    for (int step = 0; (to_come_ > 0 || !states_.empty()) && step < 100000; ++step) {
      come(scheduler);
      const bool is_open = std::ranges::any_of(states_, [](const SequenceState& s) { return s.pass_end > 0; });
      const PrefillRows prefill{.beside_decode = 1 + below(30),
                                .alone = 1 + below(limits_.max_step_rows),
                                .behind = is_open ? 0 : below(2) * (1 + below(60))};
      const Plans plans = scheduler.plan(states_, prefill);
      check(plans, prefill, is_open);
      if (::testing::Test::HasFatalFailure()) return;
      apply(plans);
    }
    ASSERT_TRUE(states_.empty()) << "some sequence never ended";
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  void come(const Scheduler& scheduler) {
    const int64_t capacity = limits_.pages_total * tensor::kPageTokens;
    for (SequenceState& s : states_) {
      // A reader falls behind while there are tokens to read only.
      const bool has_news = s.blocked || s.n_tokens - s.n_computed == 1;
      s.blocked = to_come_ > 0 && has_news && below(s.blocked ? 3 : 6) == 0;
      s.n_drafts = s.n_tokens - s.n_computed == 1 ? below(5) : 0;
    }
    while (to_come_ > 0 && below(2) == 0) {
      const int64_t n_prompt = 1 + below(capacity - 1);
      const int64_t n_answer = 1 + below(capacity - n_prompt);
      const int64_t n_reserved = n_prompt + std::min<int64_t>(n_answer, 16);
      if (!scheduler.admits(states_, n_reserved)) return;
      if (const auto i = scheduler.gives_way(states_)) {
        ASSERT_TRUE(states_[static_cast<size_t>(*i)].blocked);
        states_[static_cast<size_t>(*i)].active = false;
        states_[static_cast<size_t>(*i)].n_computed = 0;
      }
      states_.push_back({.n_tokens = n_prompt, .n_reserved = n_reserved, .order = next_order_++, .active = true});
      states_.back().whole = images_.emplace_back(some_images(n_prompt));
      ends_.push_back(n_prompt + n_answer);
      --to_come_;
    }
  }

  // What no step may cut, of half of the prompts.
  std::vector<tensor::IndexRange> some_images(int64_t n_prompt) {
    std::vector<tensor::IndexRange> images;
    const int64_t longest = limits_.max_step_rows - limits_.max_batch;
    if (longest < 1 || below(2) == 0) return images;
    for (int64_t begin = below(20); begin < n_prompt - 1; begin = images.back().end + below(20)) {
      images.push_back({begin, std::min(begin + 1 + below(longest), n_prompt - 1)});
    }
    return images;
  }

  static bool cuts_an_image(const SequenceState& s, int64_t end) {
    return std::ranges::any_of(s.whole, [end](const auto& image) { return image.begin < end && end < image.end; });
  }
  // Of a prompt beside decodes: an image that comes next is read, whatever the budget.
  static bool begins_with_an_image(const SequenceState& s) {
    return std::ranges::any_of(
        s.whole, [&](const auto& image) { return image.begin <= s.n_computed && s.n_computed + 1 < image.end; });
  }

  void check(const Plans& plans, const PrefillRows& prefill, bool is_open) {
    after_ = states_;
    for (const int32_t i : plans.step.pause) {
      SequenceState& s = after_[static_cast<size_t>(i)];
      ASSERT_EQ(s.pass_end, 0) << "the pass that is open needs its pages";
      s.active = false;
      s.n_computed = 0;
    }
    for (const int32_t i : plans.step.resume) after_[static_cast<size_t>(i)].active = true;
    std::set<int32_t> planned;
    check(plans.step, plans.step.n_decode_rows > 0 ? prefill.beside_decode : prefill.alone, planned);
    check(plans.behind, prefill.behind, planned);
    ASSERT_EQ(plans.behind.n_decode_rows, 0);
    int64_t pages = 0;
    for (const SequenceState& s : after_) pages += s.active ? pages_for(std::max(s.n_computed, s.pass_end)) : 0;
    ASSERT_LE(pages, limits_.pages_total);
    ASSERT_LE(std::ranges::count_if(after_, &SequenceState::active), limits_.max_batch);
    const bool can_run = std::ranges::any_of(states_, [](const SequenceState& s) { return !s.blocked; });
    ASSERT_EQ(plans.step.rows.empty() && plans.behind.rows.empty() && !is_open, !can_run && !is_open)
        << "the engine would stand still";
    for (const Rows& rows : plans.behind.rows) {
      SequenceState& s = after_[static_cast<size_t>(rows.sequence)];
      s.pass_end = std::exchange(s.n_computed, rows.begin);
    }
  }

  void check(const StepPlan& plan, int64_t budget, std::set<int32_t>& planned) {
    int64_t n_decode = 0;
    int64_t n_rows = 0;
    bool has_image = false;
    for (const Rows& rows : plan.rows) {
      ASSERT_TRUE(planned.insert(rows.sequence).second);
      SequenceState& s = after_[static_cast<size_t>(rows.sequence)];
      ASSERT_TRUE(s.active && !s.blocked && s.pass_end == 0);
      ASSERT_EQ(rows.begin, s.n_computed);
      ASSERT_LT(rows.begin, rows.end);
      ASSERT_LE(rows.end - rows.n_drafts, s.n_tokens);
      ASSERT_LE(rows.n_drafts, s.n_drafts);
      ASSERT_FALSE(cuts_an_image(s, rows.end));
      has_image |= begins_with_an_image(s);
      ASSERT_EQ(rows.wants_logits, rows.end - rows.n_drafts == s.n_tokens);
      n_decode += s.n_tokens - s.n_computed == 1 ? rows.end - rows.begin : 0;
      n_rows += rows.end - rows.begin;
      s.n_computed = rows.end;
    }
    ASSERT_LE(n_rows, limits_.max_step_rows);
    ASSERT_EQ(plan.n_decode_rows, n_decode);
    ASSERT_EQ(plan.n_prefill_rows, n_rows - n_decode);
    if (!has_image) {
      ASSERT_LE(plan.n_prefill_rows, budget);
    }
  }

  void apply(const Plans& plans) {
    states_ = after_;
    if (below(3) == 0) end_pass();
    for (const Rows& rows : plans.step.rows) {
      SequenceState& s = states_[static_cast<size_t>(rows.sequence)];
      const int64_t n_right = below(rows.n_drafts + 1);
      s.n_computed -= rows.n_drafts - n_right;
      if (rows.wants_logits) s.n_tokens += 1 + n_right;
    }
    for (size_t i = states_.size(); i-- > 0;) {
      states_[i].waited_ms += 10.0;
      if (states_[i].n_tokens < ends_[i]) continue;
      states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(i));
      ends_.erase(ends_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void end_pass() {
    for (SequenceState& s : states_) {
      if (s.pass_end == 0) continue;
      s.n_computed = std::exchange(s.pass_end, 0);
      if (s.n_computed == s.n_tokens) ++s.n_tokens;
    }
  }

  std::mt19937 random_;
  SchedulerLimits limits_;
  std::vector<SequenceState> states_;
  std::vector<SequenceState> after_;
  std::vector<int64_t> ends_;
  std::deque<std::vector<tensor::IndexRange>> images_;  // that the states look at
  int to_come_ = 30;
  uint64_t next_order_ = 0;
};

TEST(Scheduler, APlanNeverExceedsItsBudgetsAndEverySequenceEnds) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Simulation(seed).run();
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

constexpr Demand kOneOfEach{.n_prompts = 1, .n_decoding = 1};

TEST(StepTimes, FillsTheStepUpToTheTarget) {
  StepTimes times;
  EXPECT_EQ(times.prefill_rows(kOneOfEach).beside_decode, StepTimes::kFirstPrefillRows);
  EXPECT_EQ(times.prefill_rows(kOneOfEach).behind, StepTimes::kFirstPassRows);
  for (int i = 0; i < 100; ++i) {
    times.add(4, 0, 10.0);
    times.add(4, 20, 10.0 + 20 * 0.5);
  }
  EXPECT_NEAR(static_cast<double>(times.prefill_rows(kOneOfEach).beside_decode), (45.0 - 10.0) / 0.5, 1.0);
  EXPECT_NEAR(static_cast<double>(times.prefill_rows(kOneOfEach).alone), 45.0 / 0.5, 1.0);
  times.add_part(100, 20.0);
  EXPECT_NEAR(static_cast<double>(times.prefill_rows(kOneOfEach).behind), (45.0 - 10.0) / 0.2, 1.0);
  EXPECT_EQ(times.step_ms(kOneOfEach), 50.0);
  EXPECT_EQ(times.prefill_rows(kOneOfEach).in_some_steps, 4 * times.prefill_rows(kOneOfEach).beside_decode);
}

TEST(StepTimes, ASlowModelMayTakeTwiceAsLong) {
  StepTimes times;
  for (int i = 0; i < 100; ++i) {
    times.add(1, 0, 200.0);
    times.add(0, 512, 200.0 + 512 * 4.0);
  }
  EXPECT_NEAR(static_cast<double>(times.prefill_rows(kOneOfEach).beside_decode), (360.0 - 200.0) / 4.0, 1.0);
  EXPECT_EQ(times.step_ms(kOneOfEach), 400.0);
}

TEST(StepTimes, WhoWaitsForAPromptHasAShareLikeWhoDecodes) {
  StepTimes times;
  for (int i = 0; i < 100; ++i) times.add(1, 0, 40.0);
  const auto slowdown = [&times](int64_t n_prompts, int64_t n_decoding) {
    return times.step_ms({.n_prompts = n_prompts, .n_decoding = n_decoding}) / 40.0;
  };
  EXPECT_NEAR(slowdown(1, 7), 2.0, 0.01) << "half of the time at least";
  EXPECT_NEAR(slowdown(2, 2), 2.0, 0.01);
  EXPECT_NEAR(slowdown(2, 1), 3.0, 0.01);
  EXPECT_NEAR(slowdown(5, 2), 3.5, 0.01);
  EXPECT_NEAR(slowdown(7, 1), 4.0, 0.01) << "three quarters at most";
  EXPECT_NEAR(slowdown(7, 0), 2.0, 0.01);
  EXPECT_NEAR(slowdown(0, 0), 2.0, 0.01);
}

TEST(StepTimes, AFirstStepThatIsFasterThanDecodingMakesNoRowFree) {
  StepTimes times;
  for (int i = 0; i < 100; ++i) times.add(1, 0, 10.0);
  times.add(1, 10, 9.0);
  for (int i = 0; i < 100; ++i) times.add(1, 10, 10.0 + 10 * 0.5);
  EXPECT_NEAR(static_cast<double>(times.prefill_rows(kOneOfEach).beside_decode), (45.0 - 10.0) / 0.5, 1.0);
}

TEST(StepTimes, ARowIsReadWhereItIsCheaper) {
  StepTimes times;
  for (int i = 0; i < 100; ++i) {
    times.add(1, 0, 10.0);
    times.add(1, 10, 10.0 + 10 * 0.5);
    times.add(0, 100, 10.0 + 100 * 0.3);
  }
  EXPECT_EQ(times.prefill_rows(kOneOfEach).in_some_steps, 50) << "10 ms more for reading the weights, 0.2 less per row";
  for (int i = 0; i < 100; ++i) times.add(0, 100, 10.0 + 100 * 0.6);
  EXPECT_EQ(times.prefill_rows(kOneOfEach).in_some_steps, 4 * times.prefill_rows(kOneOfEach).beside_decode);
}

TEST(StepTimes, WhatDisturbedDecodingIsForgottenWhenItEnds) {
  StepTimes times;
  for (int i = 0; i < 100; ++i) times.add(1, 0, 85.0);
  EXPECT_NEAR(times.step_ms(kOneOfEach), 170.0, 1.0);
  times.add(1, 0, 48.0);
  EXPECT_LT(times.step_ms(kOneOfEach), 3 * 48.0);
  for (int i = 0; i < 5; ++i) times.add(1, 0, 48.0);
  EXPECT_NEAR(times.step_ms(kOneOfEach), 96.0, 3.0);
}

TEST(StepTimes, NeverStarvesPromptsAndShrugsOffOneBadSample) {
  StepTimes times;
  times.add(1, 0, 1000.0);
  times.add(0, 64, 64 * 1000.0);
  times.add_part(64, 64 * 1000.0);
  EXPECT_EQ(times.prefill_rows(kOneOfEach).beside_decode, StepTimes::kMinPrefillRows);
  EXPECT_EQ(times.prefill_rows(kOneOfEach).behind, StepTimes::kMinPassRows);
  EXPECT_EQ(times.prefill_rows(kOneOfEach).in_some_steps, 0) << "not even one row fits";
  StepTimes disturbed;
  for (int i = 0; i < 20; ++i) {
    disturbed.add(1, 0, 10.0);
    disturbed.add(0, 100, 100.0);
  }
  disturbed.add(0, 100, 1e6);
  EXPECT_GT(disturbed.prefill_rows(kOneOfEach).beside_decode, 25);
}

}  // namespace
}  // namespace tempo9::engine
