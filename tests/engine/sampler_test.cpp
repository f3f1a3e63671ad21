#include "engine/sampler/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "engine/sampler/random.h"

namespace tempo9::engine {
namespace {

constexpr std::array<int32_t, 1> kSuppressed{3};

Sampler make_sampler(SamplingParams params, int64_t n_tokens, uint64_t seed = 7) {
  return Sampler({.params = std::move(params), .seed = seed, .mask = {.n_tokens = n_tokens, .suppressed = {}}});
}

int32_t sample(Sampler& sampler, std::vector<float> logits, std::span<const int32_t> tokens = {}) {
  SamplerScratch scratch;
  const auto sampled = sampler.sample(logits, tokens, nullptr, scratch);
  EXPECT_TRUE(sampled.has_value());
  return sampled ? sampled->token : -1;
}

// Shares of the tokens over many positions.
std::map<int32_t, double> shares(const SamplingParams& params, const std::vector<float>& logits, int n = 20000) {
  Sampler sampler = make_sampler(params, static_cast<int64_t>(logits.size()));
  SamplerScratch scratch;
  std::map<int32_t, double> shares;
  const std::vector<int32_t> tokens(static_cast<size_t>(n), 0);
  for (int i = 0; i < n; ++i) {
    std::vector<float> copy = logits;
    const auto token = sampler.sample(copy, std::span(tokens).first(static_cast<size_t>(i)), nullptr, scratch)->token;
    shares[token] += 1.0 / n;
  }
  return shares;
}

std::vector<float> logs(std::vector<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST(Random, IsUniformAndDependsOnSeedAndPosition) {
  double sum = 0.0;
  std::array<int, 10> bins{};
  for (uint64_t i = 0; i < 100000; ++i) {
    const double u = uniform_at(42, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    ++bins[static_cast<size_t>(u * 10)];
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
  for (const int n : bins) EXPECT_NEAR(n, 10000, 500);
  EXPECT_NE(uniform_at(1, 5), uniform_at(2, 5));
  EXPECT_NE(uniform_at(1, 5), uniform_at(2, 4));
}

TEST(Sampler, GreedyTakesTheBestAndTheLowerIdOfEquals) {
  Sampler sampler = make_sampler({.temperature = 0.0f, .logit_bias = {}, .seed = {}}, 4);
  EXPECT_EQ(sample(sampler, {1, 5, 5, 2}), 1);
  EXPECT_EQ(sample(sampler, {-1, -5, -INFINITY, -0.5f}), 3);
}

TEST(Sampler, PaddingAndSuppressedTokensAreNeverTaken) {
  Sampler sampler({.params = {.temperature = 0.0f, .logit_bias = {{3, 50.0f}}, .seed = {}},
                   .mask = {.n_tokens = 4, .suppressed = kSuppressed}});
  EXPECT_EQ(sample(sampler, {1, 2, 0, 90, 99, 99}), 1);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const auto measured = shares({.logit_bias = {}, .seed = {}}, logs({0.5, 0.3, 0.15, 0.05}));
  EXPECT_NEAR(measured.at(0), 0.5, 0.015);
  EXPECT_NEAR(measured.at(1), 0.3, 0.015);
  EXPECT_NEAR(measured.at(2), 0.15, 0.01);
  EXPECT_NEAR(measured.at(3), 0.05, 0.01);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  // p^(1/T), normalised.
  const auto cold = shares({.temperature = 0.5f, .logit_bias = {}, .seed = {}}, logs({0.6, 0.4}));
  EXPECT_NEAR(cold.at(0), 0.36 / 0.52, 0.015);
  const auto hot = shares({.temperature = 2.0f, .logit_bias = {}, .seed = {}}, logs({0.8, 0.2}));
  EXPECT_NEAR(hot.at(0), 2.0 / 3.0, 0.015);
}

TEST(Sampler, TopKTopPMinPCutTheList) {
  const std::vector<float> logits = logs({0.05, 0.4, 0.25, 0.2, 0.1});
  const auto keys = [](const std::map<int32_t, double>& m) {
    std::vector<int32_t> ids;
    for (const auto& [id, share] : m) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(keys(shares({.top_k = 2, .logit_bias = {}, .seed = {}}, logits, 2000)), (Ids{1, 2}));
  EXPECT_EQ(keys(shares({.top_k = 1, .logit_bias = {}, .seed = {}}, logits, 200)), (Ids{1}));
  EXPECT_EQ(keys(shares({.top_p = 0.6f, .logit_bias = {}, .seed = {}}, logits, 2000)), (Ids{1, 2}));
  EXPECT_EQ(keys(shares({.top_p = 0.7f, .logit_bias = {}, .seed = {}}, logits, 2000)), (Ids{1, 2, 3}));
  EXPECT_EQ(keys(shares({.top_p = 0.0f, .logit_bias = {}, .seed = {}}, logits, 200)), (Ids{1}));
  EXPECT_EQ(keys(shares({.min_p = 0.45f, .logit_bias = {}, .seed = {}}, logits, 2000)), (Ids{1, 2, 3}));
  // top_p counts within what top_k left: 0.4 / 0.65 is more than 0.6.
  EXPECT_EQ(keys(shares({.top_p = 0.6f, .top_k = 2, .logit_bias = {}, .seed = {}}, logits, 500)), (Ids{1}));
}

TEST(Sampler, TopPEqualsTheSortedListOnRandomLogits) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const size_t n = 1 + random() % 200;
    std::vector<Candidate> candidates;
    for (size_t id = 0; id < n; ++id) {
      // Few distinct values, so that ties are common.
      candidates.push_back({.id = static_cast<int32_t>(id), .logit = static_cast<float>(random() % 8)});
    }
    set_weights(candidates, 1.5f);
    std::vector<Candidate> sorted = candidates;
    std::ranges::stable_sort(sorted, std::greater{}, &Candidate::logit);
    const double total = std::accumulate(sorted.begin(), sorted.end(), 0.0,
                                         [](double sum, const Candidate& c) { return sum + c.weight; });
    const double top_p = static_cast<double>(random() % 1000) / 1000.0 + 0.0003;  // not on a border
    std::vector<int32_t> expected;
    for (double mass = 0.0; const Candidate& c : sorted) {
      expected.push_back(c.id);
      mass += c.weight;
      if (mass >= top_p * total) break;
    }
    std::ranges::sort(expected);
    std::vector<Candidate> scratch;
    keep_top_p(candidates, top_p, scratch);
    std::vector<int32_t> kept;
    for (const Candidate& c : candidates) kept.push_back(c.id);
    EXPECT_EQ(kept, expected) << "round " << round;
  }
}

TEST(Sampler, SelectTopEqualsTheSortedList) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(1 + random() % 100);
    for (float& logit : logits) logit = random() % 10 == 0 ? -INFINITY : static_cast<float>(random() % 6);
    std::vector<Candidate> expected;
    select_all(logits, expected);
    std::ranges::stable_sort(expected, std::greater{}, &Candidate::logit);
    const size_t k = random() % 30;
    if (expected.size() > k) expected.resize(k);
    std::vector<Candidate> top;
    select_top(logits, static_cast<int64_t>(k), top);
    ASSERT_EQ(top.size(), expected.size());
    for (size_t i = 0; i < top.size(); ++i) EXPECT_EQ(top[i].id, expected[i].id);
  }
}

TEST(Sampler, ASeedRepeatsTheAnswerAndAnotherDoesNot) {
  const std::vector<float> logits(100, 0.0f);
  const auto series = [&](uint64_t seed) {
    Sampler sampler = make_sampler({.logit_bias = {}, .seed = {}}, 100, seed);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(sample(sampler, logits, tokens));
    return tokens;
  };
  EXPECT_EQ(series(1), series(1));
  EXPECT_NE(series(1), series(2));
}

TEST(Sampler, LogitBiasMovesAndBans) {
  Sampler sampler = make_sampler({.temperature = 0.0f, .logit_bias = {{0, -100.0f}, {2, 3.0f}}, .seed = {}}, 4);
  EXPECT_EQ(sample(sampler, {9, 1, 2, 4}), 2);
}

TEST(Sampler, RepetitionPenaltyLooksAtTheWindowOfPromptAndAnswer) {
  const SamplingParams params{
      .temperature = 0.0f, .repetition_penalty = 2.0f, .repeat_last_n = 2, .logit_bias = {}, .seed = {}};
  Sampler sampler = make_sampler(params, 4);
  EXPECT_EQ(sample(sampler, {4, 3, 1, 0}, std::vector<int32_t>{0, 2, 2}), 0);      // 0 is outside the window
  EXPECT_EQ(sample(sampler, {4, 3, 1, 0}, std::vector<int32_t>{2, 0, 0}), 1);      // 4 / 2 < 3, counted once
  EXPECT_EQ(sample(sampler, {-1, -1.5f, -9, -9}, std::vector<int32_t>{2, 0}), 1);  // -1 * 2
}

TEST(Sampler, PresenceAndFrequencyPenaltiesCountTheAnswer) {
  SamplingParams params{.temperature = 0.0f, .frequency_penalty = 1.0f, .logit_bias = {}, .seed = {}};
  Sampler frequency = make_sampler(params, 3);
  EXPECT_EQ(sample(frequency, {3, 1.5f, 0}, std::vector<int32_t>{0, 0, 0, 0}), 0);  // the prompt does not count
  frequency.accept(0);
  EXPECT_EQ(sample(frequency, {3, 1.5f, 0}), 0);
  frequency.accept(0);
  EXPECT_EQ(sample(frequency, {3, 1.5f, 0}), 1);
  params = {.temperature = 0.0f, .presence_penalty = 1.0f, .logit_bias = {}, .seed = {}};
  Sampler presence = make_sampler(params, 3);
  for (int i = 0; i < 5; ++i) presence.accept(0);
  EXPECT_EQ(sample(presence, {3, 1.5f, 0}), 0);
}

TEST(Sampler, LogprobsAreOfTheRawDistribution) {
  Sampler sampler({.params = {.temperature = 0.0f, .logit_bias = {{1, 100.0f}}, .seed = {}},
                   .logprobs = true,
                   .top_logprobs = 5,
                   .mask = {.n_tokens = 4, .suppressed = kSuppressed}});
  std::vector<float> logits = logs({0.5, 0.2, 0.3, 0.9});  // 3 is suppressed
  SamplerScratch scratch;
  const auto sampled = sampler.sample(logits, {}, nullptr, scratch);
  ASSERT_TRUE(sampled);
  EXPECT_EQ(sampled->token, 1);
  EXPECT_NEAR(sampled->info.chosen.logprob, std::log(0.2f), 1e-6);
  ASSERT_EQ(sampled->info.top.size(), 3u);  // no entry for what has no probability
  EXPECT_EQ(sampled->info.top[0].token, 0);
  EXPECT_EQ(sampled->info.top[1].token, 2);
  EXPECT_EQ(sampled->info.top[2].token, 1);
  EXPECT_NEAR(sampled->info.top[0].logprob, std::log(0.5f), 1e-6);
}

TEST(Sampler, BadLogitsAreAnError) {
  SamplerScratch scratch;
  for (const float bad : {NAN, INFINITY}) {
    Sampler sampler = make_sampler({.logit_bias = {}, .seed = {}}, 3);
    std::vector<float> logits{0.0f, bad, 1.0f};
    const auto sampled = sampler.sample(logits, {}, nullptr, scratch);
    ASSERT_FALSE(sampled);
    EXPECT_EQ(sampled.error().code(), ErrorCode::kInternal);
  }
  Sampler sampler = make_sampler({.logit_bias = {}, .seed = {}}, 2);
  std::vector<float> none{-INFINITY, -INFINITY};
  EXPECT_FALSE(sampler.sample(none, {}, nullptr, scratch));
}

TEST(Sampler, ExtremeTemperaturesAndBiasesStayFinite) {
  Sampler cold = make_sampler({.temperature = 1e-6f, .logit_bias = {}, .seed = {}}, 3);
  EXPECT_EQ(sample(cold, {1e30f, 1e31f, -1e38f}), 1);
  Sampler biased = make_sampler({.temperature = 1.0f, .logit_bias = {{0, 1e6f}, {0, 1e6f}}, .seed = {}}, 3);
  EXPECT_EQ(sample(biased, {3.4e38f, 0, 0}), 0);
}

TEST(Sampler, LogprobsAreOfTheDistributionBeforeTheGrammar) {
  Sampler sampler({.params = {.temperature = 0.0f},
                   .seed = 7,
                   .logprobs = true,
                   .top_logprobs = 1,
                   .mask = {.n_tokens = 70, .suppressed = {}}});
  grammar::TokenMask allowed(70);
  allowed.set(2);
  allowed.set(69);
  std::vector<float> logits(72, -100.0f);
  logits[0] = std::log(0.6f);
  logits[2] = std::log(0.1f);
  logits[69] = std::log(0.3f);
  SamplerScratch scratch;
  const auto sampled = sampler.sample(logits, {}, &allowed, scratch);
  ASSERT_TRUE(sampled.has_value());
  EXPECT_EQ(sampled->token, 69);
  EXPECT_NEAR(sampled->info.chosen.logprob, std::log(0.3f), 1e-5);
  ASSERT_EQ(sampled->info.top.size(), 1u);
  EXPECT_EQ(sampled->info.top[0].token, 0);
}

}  // namespace
}  // namespace tempo9::engine
