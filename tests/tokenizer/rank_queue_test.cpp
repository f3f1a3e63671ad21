#include "tokenizer/rank_queue.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tempo9::tokenizer {
namespace {

TEST(RankQueue, GivesTheLowestPositionOfTheLowestRank) {
  RankQueue queue;
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    std::mt19937 random(seed);
    const uint32_t n_ranks = seed == 1 ? 1 : 1u << (4 * seed);
    std::multiset<std::pair<uint32_t, uint32_t>> expected;
    queue.clear();
    ASSERT_TRUE(queue.empty());
    const auto push = [&] {
      const uint32_t rank = random() % n_ranks, position = random() % 100'000;
      queue.push(rank, position);
      expected.emplace(rank, position);
    };
    for (int i = 0; i < 5000; ++i) push();
    for (int i = 0; !expected.empty(); ++i) {
      ASSERT_FALSE(queue.empty());
      const auto [rank, position] = queue.pop();
      ASSERT_EQ(std::pair(rank, position), *expected.begin()) << "seed " << seed;
      expected.erase(expected.begin());
      if (i < 20'000 && random() % 8 < 7) push();
    }
    ASSERT_TRUE(queue.empty());
    push();  // what is left behind by clear() must not come back
    expected.clear();
  }
}

TEST(RankQueue, TakesRanksToTheLargest) {
  RankQueue queue;
  queue.push(UINT32_MAX - 1, UINT32_MAX);
  queue.push(UINT32_MAX - 1, 0);
  queue.push(0, 7);
  EXPECT_EQ(queue.pop().position, 7u);
  EXPECT_EQ(queue.pop().position, 0u);
  EXPECT_EQ(queue.pop().position, UINT32_MAX);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace tempo9::tokenizer
