// The parts of speculation that are arithmetic: looking up, acceptance, the gate, the fit of costs, the choice of
// depths.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "engine/speculation/acceptance.h"
#include "engine/speculation/depths.h"
#include "engine/speculation/draft_control.h"
#include "engine/speculation/step_cost.h"
#include "engine/speculation/suffix_index.h"

namespace tempo9::engine {
namespace {

std::vector<int32_t> propose(const std::vector<int32_t>& tokens, size_t n) {
  SuffixIndex index;
  index.extend(tokens);
  std::vector<int32_t> drafts;
  index.propose(tokens, n, drafts);
  return drafts;
}

TEST(SuffixIndex, GivesWhatFollowedTheLongestMatch) {
  // "1 2 3 4" stands there twice; before the first, what also stands before the end.
  EXPECT_EQ(propose({9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 0, 0, 9, 1, 2, 3, 4}, 3), (std::vector<int32_t>{5, 6, 7}));
  // Of equal ones the latest.
  EXPECT_EQ(propose({1, 2, 3, 4, 5, 1, 2, 3, 4, 6, 0, 1, 2, 3, 4}, 1), (std::vector<int32_t>{6}));
  EXPECT_EQ(propose({1, 2, 3, 5, 9, 1, 2, 3}, 4), std::vector<int32_t>{});  // three tokens are chance
  EXPECT_EQ(propose({}, 4), std::vector<int32_t>{});
}

TEST(SuffixIndex, GoesRoundWhereTheTextRepeatsItself) {
  EXPECT_EQ(propose({1, 2, 3, 1, 2, 3, 1, 2}, 7), (std::vector<int32_t>{3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(propose({7, 7, 7, 7, 7}, 4), (std::vector<int32_t>{7, 7, 7, 7}));
}

TEST(SuffixIndex, TakesInATextPieceByPiece) {
  std::mt19937 random(3);
  std::vector<int32_t> tokens;
  SuffixIndex index;
  for (int i = 0; i < 2000; ++i) {
    tokens.push_back(static_cast<int32_t>(random() % 3));
    index.extend(tokens);
    if (i % 7 != 0) continue;
    std::vector<int32_t> drafts;
    index.propose(tokens, 5, drafts);
    ASSERT_EQ(drafts, propose(tokens, 5)) << i;
  }
}

TEST(AcceptanceRates, HalveTheWeightOfTheFirstGuessIn32Trials) {
  AcceptanceRates rates(1.0);
  for (int i = 0; i < 32; ++i) rates.add(/*n_drafts=*/3, /*n_accepted=*/1);
  EXPECT_NEAR(rates.at(0), 1.0, 1e-9);
  EXPECT_NEAR(rates.at(1), 0.5, 1e-3);
  EXPECT_NEAR(rates.at(2), 1.0, 1e-9);  // never reached
  EXPECT_NEAR(rates.for_new_text().at(1), rates.at(1), 1e-9);
}

TEST(AcceptanceRates, OfANewTextFollowItsFirstTrialsSooner) {
  AcceptanceRates all(0.8);
  AcceptanceRates text = all.for_new_text();
  for (int i = 0; i < 8; ++i) {
    all.add(1, 0);
    text.add(1, 0);
  }
  EXPECT_NEAR(text.at(0), 0.4, 1e-9) << "its first guess counts as eight trials";
  EXPECT_GT(all.at(0), 0.65);
  for (int i = 0; i < 400; ++i) all.add(1, 0);
  EXPECT_LT(all.at(0), 0.01);
  for (int i = 0; i < 100; ++i) all.forget();
  EXPECT_GT(all.at(0), 0.65) << "what was given up is tried again";
}

TEST(AcceptanceGate, ClosesBelowTheLimitProbesAndOpensAgain) {
  AcceptanceGate gate(0.60);
  for (int i = 0; i < 4; ++i) gate.add(4, 3, 100);
  EXPECT_TRUE(gate.is_open());
  for (int i = 0; i < 4 && gate.is_open(); ++i) gate.add(4, 1, 100);
  EXPECT_FALSE(gate.is_open());
  EXPECT_EQ(gate.max_depth(163), 0);
  EXPECT_EQ(gate.max_depth(164), 1);
  for (int i = 0; i < 8; ++i) gate.add(1, i < 5 ? 1 : 0, 170);  // 0.625: above the limit, not by enough
  EXPECT_FALSE(gate.is_open());
  EXPECT_EQ(gate.max_depth(170 + 127), 0);
  EXPECT_EQ(gate.max_depth(170 + 128), 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(gate.max_depth(300 + i), 1);
    gate.add(1, 0, 300 + i);
  }
  EXPECT_EQ(gate.max_depth(303), 0) << "five of eight would not do";
  EXPECT_EQ(gate.max_depth(302 + 256), 1);
  for (int i = 0; i < 8; ++i) gate.add(1, i < 6 ? 1 : 0, 600);
  EXPECT_TRUE(gate.is_open());
  EXPECT_EQ(gate.n_closings(), 1u);
}

TEST(AcceptanceGate, WithoutALimitNeverCloses) {
  AcceptanceGate gate(0.0);
  for (int i = 0; i < 100; ++i) gate.add(4, 0, i);
  EXPECT_TRUE(gate.is_open());
}

TEST(StepCost, FitsALine) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(1.0, 0.03);
  StepCost cost;
  for (int i = 0; i < 300; ++i) {
    const int64_t n_rows = 1 + static_cast<int64_t>(random() % 8);
    cost.add(n_rows, (5.0 + 0.4 * static_cast<double>(n_rows)) * noise(random));
  }
  for (int64_t n_rows = 1; n_rows <= 8; ++n_rows) {
    EXPECT_NEAR(cost.predict(n_rows), 5.0 + 0.4 * static_cast<double>(n_rows), 0.2) << n_rows;
  }
  EXPECT_LT(cost.median_error(), 0.1);
  // The machine gets slower.
  for (int i = 0; i < 300; ++i) cost.add(1 + i % 4, 10.0 + 2.0 * (1 + i % 4));
  EXPECT_NEAR(cost.predict(3), 16.0, 0.1);
}

TEST(StepCost, KeepsItsFirstGuessOfARowWhileNothingTellsOtherwise) {
  StepCost cost;
  EXPECT_FALSE(cost.is_measured());
  for (int i = 0; i < 5000; ++i) cost.add(1, i % 2 == 0 ? 10.2 : 9.8);
  EXPECT_NEAR(cost.predict(1), 10.0, 0.3);
  EXPECT_GT(cost.predict(4), cost.predict(1));
  cost.add(4, 12.0);
  EXPECT_NEAR(cost.predict(1), 10.0, 0.5);
}

// With a or b cut at 0 alone, every ninth of these ended with passes of one row at up to 300 times their time, for
// good.
TEST(StepCost, RecoversFromProcessesThatTookTheCore) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    StepCost cost;
    const auto ms = [&](int64_t n_rows) {
      return (1.9 + 0.5 * static_cast<double>(n_rows)) * (0.95 + 0.0001 * static_cast<double>(random() % 1000));
    };
    const auto taken = [&] { return random() % 4 == 0 ? 10.0 + static_cast<double>(random() % 60) : 0.0; };
    for (int i = 0; i < 60; ++i) {
      const int64_t n_rows = 1 + static_cast<int64_t>(random() % 4);
      cost.add(n_rows, ms(n_rows) + taken());
    }
    for (int i = 0; i < 40; ++i) cost.add(1, ms(1) + taken());
    for (int i = 0; i < 300; ++i) cost.add(1, ms(1));
    ASSERT_NEAR(cost.predict(1), 2.4, 0.1) << seed;
    ASSERT_LT(cost.median_error(), 0.1) << seed;
    // A row that is thought to cost as much as a pass is not thought so for ever.
    for (int i = 0; i < 1500; ++i) cost.add(1, ms(1));
    ASSERT_LT(cost.row_ms(), 0.5 * cost.base_ms()) << seed;
    ASSERT_GT(cost.row_ms(), 0.0) << seed;
  }
}

// Kernels change with the number of rows: 5 of them took 1.8 times as long as 4, where a line says 1.1.
TEST(StepCost, KnowsWhereTimeJumps) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(1.0, 0.1);
  const auto ms = [&](int64_t n_rows) {
    return (1.0 + 0.2 * static_cast<double>(n_rows) + (n_rows > 4 ? 1.4 : 0.0)) * noise(random);
  };
  StepCost cost;
  for (int i = 0; i < 600; ++i) cost.add(i % 8 == 7 ? 6 : 1 + i % 4, ms(i % 8 == 7 ? 6 : 1 + i % 4));
  EXPECT_NEAR(cost.predict(1), 1.2, 0.1);
  EXPECT_NEAR(cost.predict(4), 1.8, 0.12);
  EXPECT_NEAR(cost.predict(6), 3.6, 0.3);
  EXPECT_LT(cost.predict(5), cost.predict(6));
  // The machine gets half as fast while all passes have one row: those of more do too.
  for (int i = 0; i < 300; ++i) cost.add(1, 2.0 * ms(1));
  EXPECT_NEAR(cost.predict(4) / cost.predict(1), 1.5, 0.2);
}

TEST(StepCost, CountsTheExpertsThatRowsAddUpTo) {
  StepCost cost({.n_experts = 8, .n_used = 2});
  const auto units = [](double n_rows) { return 4.0 * (1.0 - std::pow(0.75, n_rows)); };
  for (int i = 0; i < 300; ++i) cost.add(1 + i % 6, 3.0 + 2.0 * units(1 + i % 6));
  EXPECT_NEAR(cost.predict(8), 3.0 + 2.0 * units(8.0), 0.05);
}

TEST(ChooseDepths, WeighsChancesAgainstCosts) {
  StepCost cheap_rows;
  for (int i = 0; i < 200; ++i) cheap_rows.add(1 + i % 8, 10.0 + 0.4 * (1 + i % 8));
  StepCost dear_rows;
  for (int i = 0; i < 200; ++i) dear_rows.add(1 + i % 8, 1.0 + 9.0 * (1 + i % 8));
  const AcceptanceRates good(0.9), bad(0.3);
  const std::vector<DraftCandidate> candidates = {{.max_depth = 16, .rates = &good}, {.max_depth = 16, .rates = &bad}};
  const auto cheap = choose_depths(candidates, 2, 2, 100, {.step = cheap_rows});
  EXPECT_GT(cheap[0].n, 6);
  EXPECT_GE(cheap[1].n, 1);
  EXPECT_LT(cheap[1].n, 4);
  EXPECT_NEAR(cheap[0].cost_ms + cheap[1].cost_ms, 0.4 * static_cast<double>(cheap[0].n + cheap[1].n), 0.05);
  const auto dear = choose_depths(candidates, 2, 2, 100, {.step = dear_rows});
  EXPECT_LE(dear[0].n, 1);
  EXPECT_EQ(dear[1].n, 0);
  const auto few = choose_depths(candidates, 2, 2, 3, {.step = cheap_rows});
  EXPECT_EQ(few[0].n + few[1].n, 3);
  // Passes of a model that drafts cost as well: shared by all who need them.
  const std::vector<DraftCandidate> from_block = {{.max_depth = 16, .rates = &good, .needs_passes = true}};
  const auto with_passes =
      choose_depths(from_block, 1, 1, 100, {.step = cheap_rows, .first_pass_ms = 1.0, .next_pass_ms = 4.0});
  EXPECT_GE(with_passes[0].n, 1);
  EXPECT_LT(with_passes[0].n, cheap[0].n);
}

TEST(ChooseDepths, SpendsNoMoreThanMayBeLost) {
  StepCost cost;
  for (int i = 0; i < 400; ++i) cost.add(1 + i % 8, 10.0 + 1.0 * (1 + i % 8));
  const AcceptanceRates good(0.9);
  const std::vector<DraftCandidate> candidates = {
      {.max_depth = 16, .rates = &good, .may_lose_ms = 3.2},
      {.max_depth = 16, .rates = &good, .needs_passes = true, .drafter = Drafter::kBlock}};
  const auto depths = choose_depths(candidates, 2, 2, 100, {.step = cost, .may_lose_ms = {100.0, 2.1}});
  EXPECT_EQ(depths[0].n, 3);
  EXPECT_EQ(depths[1].n, 2);
}

TEST(ChooseDepths, LooksBehindAJump) {
  StepCost cost;
  const auto ms = [](int64_t n_rows) { return 5.0 + 0.1 * static_cast<double>(n_rows) + (n_rows > 2 ? 4.0 : 0.0); };
  for (int i = 0; i < 400; ++i) cost.add(1 + i % 8, ms(1 + i % 8));
  const AcceptanceRates good(0.95);
  const std::vector<DraftCandidate> candidates = {{.max_depth = 7, .rates = &good}};
  EXPECT_EQ(choose_depths(candidates, 1, 1, 100, {.step = cost})[0].n, 7);
}

// ---- all of it, at a cost that is made up

// Whether drafts are right: of the text, then of the block, each with a chance that changes while the answers go on.
struct World {
  double row = 0.2;         // of a pass of one row
  double jump = 0.0;        // from the fifth row on
  double draft_pass = 0.1;  // of the block
  double noise = 0.0;       // of what is measured
  int64_t answer = 100;     // tokens
  int64_t n_answers = 20;
  bool has_text = true;  // drafts of the text, at half of the places
  std::function<double(int64_t token, Drafter drafter)> chance;

  double pass(int64_t n_rows) const {
    return 1.0 - row + row * static_cast<double>(n_rows) + (n_rows > 4 ? jump : 0.0);
  }
};

struct Outcome {
  double time = 0.0;     // in passes of one row
  int64_t n_tokens = 0;  // the time without drafts
  double worst = -1e9;   // most that was lost since any token before
};

Outcome simulate(const World& world, uint32_t seed, const SpeculationOptions& options = {.max_depth = kMaxDepth}) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::normal_distribution<double> noise(1.0, world.noise);
  DraftControl control(options, {});
  Outcome outcome;
  double best = 0.0;  // least lost until now
  for (int64_t i = 0; i < world.n_answers; ++i) {
    RequestControl request = control.begin_request();
    for (int64_t n = 1; n < world.answer;) {
      const bool from_text = world.has_text && uniform(random) < 0.5 && !control.prefers_block(request, n);
      const Drafter drafter = from_text ? Drafter::kText : Drafter::kBlock;
      DraftControl::Candidate candidate{
          .request = &request,
          .drafter = drafter,
          .limit = std::min(control.depth_limit(request, drafter, n), world.answer - n - 1)};
      control.choose({&candidate, 1}, 100);
      const double drafting = from_text ? 0.0 : world.draft_pass * static_cast<double>(candidate.depth);
      if (!from_text && candidate.depth > 0) control.measure_first_draft(world.draft_pass);
      if (!from_text && candidate.depth > 1) control.measure_next_draft(world.draft_pass);
      int64_t n_right = 0;
      while (n_right < candidate.depth && uniform(random) < world.chance(outcome.n_tokens + n_right, drafter)) {
        ++n_right;
      }
      const double pass = world.pass(1 + candidate.depth);
      control.verified(request, candidate.depth, n_right, n + n_right + 1);
      control.measure(1 + candidate.depth, pass * std::max(0.3, noise(random)));
      outcome.time += pass + drafting;
      n += n_right + 1;
      outcome.n_tokens += n_right + 1;
      const double lost = outcome.time - 1.02 * static_cast<double>(outcome.n_tokens);
      outcome.worst = std::max(outcome.worst, lost - best);
      best = std::min(best, lost);
    }
  }
  return outcome;
}

std::string describe(const World& world, uint32_t seed) {
  return "row " + std::to_string(world.row) + ", jump " + std::to_string(world.jump) + ", draft " +
         std::to_string(world.draft_pass) + ", answers of " + std::to_string(world.answer) + ", seed " +
         std::to_string(seed);
}

World random_world(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::initializer_list<double> values) { return values.begin()[random() % values.size()]; };
  World world{.row = pick({0.05, 0.1, 0.25, 0.4, 0.8}),
              .jump = pick({0.0, 0.0, 1.3}),
              .draft_pass = pick({0.05, 0.1, 0.3}),
              .noise = pick({0.0, 0.05, 0.15}),
              .answer = static_cast<int64_t>(pick({10, 50, 100, 400})),
              .n_answers = 0,
              .has_text = random() % 3 > 0,
              .chance = {}};
  world.n_answers = 6000 / world.answer;
  return world;
}

// Whatever drafts are like, and whenever that changes: no more is lost than 2 % of the time and a few passes.
TEST(DraftControl, NeverLosesMoreThanAShareOfTheTimeAndAFewPasses) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    World world = random_world(seed);
    std::mt19937 random(seed);
    // Chances of stretches of the text, for each drafter.
    const auto length = static_cast<int64_t>(20 + random() % 2000);
    std::array<std::vector<double>, kDrafters> chances;
    for (std::vector<double>& of_drafter : chances) {
      for (int i = 0; i < 400; ++i) {
        of_drafter.push_back(random() % 2 == 0 ? 0.0 : static_cast<double>(random() % 100) / 100.0);
      }
    }
    world.chance = [&](int64_t token, Drafter drafter) {
      return chances[static_cast<size_t>(drafter)][static_cast<size_t>(token / length) % 400];
    };
    const Outcome outcome = simulate(world, seed);
    // From the start, and from wherever there was most to lose.
    EXPECT_LT(outcome.time, 1.02 * static_cast<double>(outcome.n_tokens) + 10.0) << describe(world, seed);
    EXPECT_LT(outcome.worst, 24.0) << describe(world, seed);
  }
}

TEST(DraftControl, LosesLittleWhereFourOfFiveDraftsAreWrong) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    World world = random_world(seed);
    world.chance = [](int64_t, Drafter) { return 0.17; };
    const Outcome outcome = simulate(world, seed);
    EXPECT_LT(outcome.time, 1.01 * static_cast<double>(outcome.n_tokens) + 12.0) << describe(world, seed);
  }
}

// Of those without a gate. Where time jumps it is further off: depths behind the jump are seldom tried.
TEST(DraftControl, IsNearTheBestFixedDepth) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    World world = random_world(seed);
    world.answer = std::max<int64_t>(world.answer, 100);
    world.row = std::max(world.row, 0.1);
    world.n_answers = 6000 / world.answer;
    const double chance = 0.7 + 0.29 * static_cast<double>(seed % 10) / 10.0;
    world.chance = [&](int64_t, Drafter) { return chance; };
    double best = 1e9;
    for (const int64_t depth : {1, 2, 3, 4, 6, 8, 12}) {
      const Outcome fixed = simulate(world, seed, {.max_depth = depth, .always = true});
      best = std::min(best, fixed.time / static_cast<double>(fixed.n_tokens));
    }
    best = std::min(best, 1.0);
    const Outcome outcome = simulate(world, seed, {.max_depth = kMaxDepth, .min_acceptance = 0.0});
    const double time = outcome.time / static_cast<double>(outcome.n_tokens);
    EXPECT_LT(time, (world.jump > 0.0 ? 1.45 : 1.15) * best) << describe(world, seed) << ", chance " << chance;
  }
}

// What turns good after it was bad is found out, in one long answer and in many short ones.
TEST(DraftControl, ComesBackWhenDraftsAreRightAgain) {
  for (const int64_t answer : {200, 20000}) {
    World world{.row = 0.25, .answer = answer, .n_answers = 40000 / answer, .has_text = false, .chance = {}};
    world.chance = [](int64_t token, Drafter) { return token < 10000 ? 0.1 : 0.95; };
    const Outcome outcome = simulate(world, 1);
    EXPECT_LT(outcome.time, 10000.0 * 1.02 + 0.75 * 30000.0) << answer;
  }
}

}  // namespace
}  // namespace tempo9::engine
