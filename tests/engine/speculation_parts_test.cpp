// The parts of speculation that are arithmetic: looking up, acceptance, the gate, the fit of costs, the choice of
// depths.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/speculation/acceptance.h"
#include "engine/speculation/depths.h"
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
  EXPECT_NEAR(rates.for_new_text().at(1), 0.75, 1e-3);
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
  EXPECT_GT(cheap[0], 6);
  EXPECT_GE(cheap[1], 1);
  EXPECT_LT(cheap[1], 4);
  const auto dear = choose_depths(candidates, 2, 2, 100, {.step = dear_rows});
  EXPECT_LE(dear[0], 1);
  EXPECT_EQ(dear[1], 0);
  const auto few = choose_depths(candidates, 2, 2, 3, {.step = cheap_rows});
  EXPECT_EQ(few[0] + few[1], 3);
  // Passes of a model that drafts cost as well: shared by all who need them.
  const std::vector<DraftCandidate> from_block = {{.max_depth = 16, .rates = &good, .needs_passes = true}};
  const auto with_passes =
      choose_depths(from_block, 1, 1, 100, {.step = cheap_rows, .first_pass_ms = 1.0, .next_pass_ms = 4.0});
  EXPECT_GE(with_passes[0], 1);
  EXPECT_LT(with_passes[0], cheap[0]);
}

}  // namespace
}  // namespace tempo9::engine
