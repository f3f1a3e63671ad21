#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tempo9 {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};
// More workers than this machine's cores among them.
INSTANTIATE_TEST_SUITE_P(Workers, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolTest, RunsEveryWorkerOnce) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.n_workers(), GetParam());
  std::vector<int> calls(static_cast<size_t>(GetParam()));
  for (int i = 0; i < 100; ++i) {
    pool.run([&](ThreadPool::Worker& worker) {
      EXPECT_EQ(worker.count(), GetParam());
      ++calls[static_cast<size_t>(worker.index())];
    });
  }
  EXPECT_EQ(calls, std::vector<int>(calls.size(), 100));
}

TEST_P(ThreadPoolTest, GivesEachChunkToOneWorker) {
  ThreadPool pool(GetParam());
  for (int64_t n : {0, 1, 2, 5, 1000}) {
    std::vector<int> taken(static_cast<size_t>(n));
    pool.run([&](ThreadPool::Worker& worker) {
      worker.for_chunks(n, [&](int64_t chunk) { ++taken[static_cast<size_t>(chunk)]; });
    });
    EXPECT_EQ(taken, std::vector<int>(taken.size(), 1));
  }
}

TEST_P(ThreadPoolTest, TakesSeveralQueuesBetweenBarriers) {
  ThreadPool pool(GetParam());
  std::vector<int> taken(4 * 17);
  pool.run([&](ThreadPool::Worker& worker) {
    for (int round = 0; round < 3; ++round) {
      for (int queue = 0; queue < 4; ++queue) {
        worker.for_chunks(17, [&](int64_t chunk) { ++taken[static_cast<size_t>(queue * 17 + chunk)]; });
      }
      worker.barrier();
    }
  });
  EXPECT_EQ(taken, std::vector<int>(taken.size(), 3));
}

// Each round reads what all workers wrote in the round before.
TEST_P(ThreadPoolTest, BarrierOrdersWrites) {
  constexpr int64_t kRounds = 500;
  ThreadPool pool(GetParam());
  const auto n = static_cast<size_t>(GetParam());
  std::vector<int64_t> even(n, 1);
  std::vector<int64_t> odd(n, 0);
  std::vector<int64_t> failures(n, 0);
  pool.run([&](ThreadPool::Worker& worker) {
    const auto me = static_cast<size_t>(worker.index());
    for (int64_t round = 1; round <= kRounds; ++round) {
      const std::vector<int64_t>& from = round % 2 != 0 ? even : odd;
      std::vector<int64_t>& to = round % 2 != 0 ? odd : even;
      for (int64_t value : from) failures[me] += value != round;
      to[me] = round + 1;
      worker.barrier();
    }
  });
  EXPECT_EQ(std::accumulate(failures.begin(), failures.end(), int64_t{0}), 0);
}

TEST(ThreadPool, SleepsAndWakesBetweenRegions) {
  ThreadPool pool(2);
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than idle workers spin; either way is right
    pool.run([&](ThreadPool::Worker& worker) {
      if (worker.index() == 1) ++sum;
    });
  }
  EXPECT_EQ(sum, 3);
}

TEST(ThreadPool, CountsAtLeastOneCore) {
  EXPECT_GE(n_usable_cores(), 1);
  EXPECT_LE(n_usable_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace tempo9
