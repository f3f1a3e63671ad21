#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace tempo9::kv {
namespace {

TEST(PagePool, HandsOutEachPageOnceAndSaysWhichAreClean) {
  PagePool pool(4);
  std::set<int32_t> pages;
  for (int i = 0; i < 4; ++i) {
    const TakenPage taken = pool.take();
    EXPECT_TRUE(taken.clean);
    pages.insert(taken.page);
  }
  EXPECT_EQ(pages.size(), 4u);
  EXPECT_EQ(pool.n_free(), 0);
  pool.drop(2);
  const TakenPage again = pool.take();
  EXPECT_EQ(again.page, 2);
  EXPECT_FALSE(again.clean);
}

TEST(PagePool, KeepsSomeFreePagesAndReturnsTheHighOnesOfMany) {
  PagePool pool(1000);
  for (int i = 0; i < 200; ++i) pool.take();
  for (int32_t page = 199; page >= 150; --page) pool.drop(page);
  EXPECT_TRUE(pool.trim().empty());  // 50 free: below what is kept
  for (int32_t page = 0; page < 150; ++page) pool.drop(page);
  const std::vector<PageRun> runs = pool.trim();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].begin, 32);
  EXPECT_EQ(runs[0].end, 200);
  EXPECT_EQ(pool.n_resident(), 32);
  EXPECT_EQ(pool.n_free(), 1000);
  EXPECT_EQ(pool.take().page, 0);
}

TEST(PagePool, SplitsWhatItReturnsIntoRuns) {
  PagePool pool(400);
  for (int i = 0; i < 400; ++i) pool.take();
  for (int32_t page = 0; page < 400; ++page) {
    if (page != 350) pool.drop(page);
  }
  const std::vector<PageRun> runs = pool.trim();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].end, 350);
  EXPECT_EQ(runs[1].begin, 351);
}

TEST(PagePoolDeathTest, ADoubleFreeIsOurMistake) {
  PagePool pool(2);
  const int32_t page = pool.take().page;
  pool.drop(page);
  EXPECT_DEATH(pool.drop(page), "sequences_of");
}

}  // namespace
}  // namespace tempo9::kv
