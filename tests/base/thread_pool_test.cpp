#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>

namespace tempo9 {
namespace {

// Stages with the given numbers of chunks.
class Work final : public StagedWork {
 public:
  using Body = std::function<void(int64_t stage, int64_t chunk, int worker)>;
  Work(std::vector<int64_t> chunks, Body body) : chunks_(std::move(chunks)), body_(std::move(body)) {}

  int64_t n_stages() const override { return std::ssize(chunks_); }
  int64_t n_chunks(int64_t stage) const override { return chunks_[static_cast<size_t>(stage)]; }
  void run_chunk(int64_t stage, int64_t chunk, int worker) const override { body_(stage, chunk, worker); }

 private:
  std::vector<int64_t> chunks_;
  Body body_;
};

class ThreadPoolTest : public testing::TestWithParam<int> {};
// More workers than this machine's cores among them.
INSTANTIATE_TEST_SUITE_P(Workers, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolTest, RunsEachChunkOnce) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.n_workers(), GetParam());
  const std::vector<int64_t> chunks = {3, 0, 1, 1, 1000, 1, 0, 2, 0};
  std::vector<std::vector<int>> runs;
  for (int64_t n : chunks) runs.emplace_back(static_cast<size_t>(n));
  const Work work(chunks, [&](int64_t stage, int64_t chunk, int worker) {
    EXPECT_GE(worker, 0);
    EXPECT_LT(worker, GetParam());
    ++runs[static_cast<size_t>(stage)][static_cast<size_t>(chunk)];
  });
  for (int i = 0; i < 50; ++i) pool.run(work);
  for (const std::vector<int>& stage : runs) EXPECT_EQ(stage, std::vector<int>(stage.size(), 50));
}

TEST_P(ThreadPoolTest, RunsWorkWithoutAnyChunk) {
  ThreadPool pool(GetParam());
  const auto never = [](int64_t, int64_t, int) { ADD_FAILURE(); };
  pool.run(Work({}, never));
  pool.run(Work({0, 0}, never));
}

// Each chunk reads what all chunks of the stage before wrote, without atomics.
TEST_P(ThreadPoolTest, StagesSeeWhatEarlierOnesWrote) {
  constexpr int64_t kStages = 600;
  constexpr size_t kWidth = 6;
  ThreadPool pool(GetParam());
  std::vector<int64_t> chunks;
  for (int64_t stage = 0; stage < kStages; ++stage) chunks.push_back(stage % 3 == 0 ? 1 : int64_t{kWidth});
  std::vector<std::vector<int64_t>> values(kStages, std::vector<int64_t>(kWidth));
  pool.run(Work(chunks, [&](int64_t stage, int64_t chunk, int) {
    int64_t sum = 1;
    if (stage > 0) {
      const std::vector<int64_t>& before = values[static_cast<size_t>(stage - 1)];
      sum += *std::max_element(before.begin(), before.end());
      for (int64_t i = 0; i < chunks[static_cast<size_t>(stage - 1)]; ++i) {
        EXPECT_EQ(before[static_cast<size_t>(i)], sum - 1) << stage;
      }
    }
    values[static_cast<size_t>(stage)][static_cast<size_t>(chunk)] = sum;
  }));
  EXPECT_EQ(values.back().front(), kStages);
}

TEST_P(ThreadPoolTest, TellsApartCallsThatRunAtTheSameTime) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> inside(static_cast<size_t>(GetParam()));
  pool.run(Work({200, 200}, [&](int64_t, int64_t, int worker) {
    std::atomic<int>& mine = inside[static_cast<size_t>(worker)];
    EXPECT_EQ(mine.fetch_add(1), 0);
    std::this_thread::yield();
    mine.fetch_sub(1);
  }));
}

// A worker that is held up in a chunk does not keep the others from the rest of the stage.
TEST(ThreadPool, OthersTakeTheChunksOfOneThatIsHeldUp) {
  ThreadPool pool(2);
  std::atomic<int> n_others = 0;
  pool.run(Work({40}, [&](int64_t, int64_t chunk, int) {
    if (chunk == 0) {
      while (n_others.load() < 39) std::this_thread::yield();
    } else {
      ++n_others;
    }
  }));
  EXPECT_EQ(n_others.load(), 39);
}

TEST(ThreadPool, SleepsAndWakesBetweenRuns) {
  ThreadPool pool(2);
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than idle workers spin; either way is right
    std::atomic<int> met = 0;
    // Both chunks wait for each other, so both workers must have come.
    pool.run(Work({2}, [&](int64_t, int64_t, int) {
      ++met;
      while (met.load() < 2) std::this_thread::yield();
    }));
    sum += met.load();
  }
  EXPECT_EQ(sum, 6);
}

TEST(ThreadPool, CountsAtLeastOneCore) {
  EXPECT_GE(n_usable_cores(), 1);
  EXPECT_LE(n_usable_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace tempo9
