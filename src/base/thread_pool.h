// The compute threads: parallel regions with barriers and dynamic chunks inside.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/check.h"

namespace tempo9 {

// Physical cores that this process may run on (its affinity mask; of hardware threads that share a core one counts).
int n_usable_cores();

// A fixed set of threads that run one region at a time. Who calls run() is worker 0, so a pool of 1 has no thread of
// its own. Waiting is spinning for some microseconds and then sleeping; with more workers than cores it is sleeping at
// once.
//
// Used from one thread at a time. Regions do not nest.
class ThreadPool {
 public:
  class Worker;

  // REQUIRES: n_workers >= 1.
  explicit ThreadPool(int n_workers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_workers() const { return n_workers_; }

  // Calls body(Worker&) on every worker at once; returns when all have returned.
  template <class Body>
  void run(const Body& body);

 private:
  using Entry = void (*)(const void* body, Worker& worker);
  // Chunk queues that may be used between two barriers.
  static constexpr int kQueues = 4;

  struct alignas(64) Line {
    std::atomic<int64_t> value = 0;
  };

  void run_region(Entry entry, const void* body);
  void thread_main(int index);
  void arrive_and_wait(int n_used_queues);
  // Returns once `word` is no longer `old`.
  static void wait_for_change(const std::atomic<int32_t>& word, int32_t old, int64_t n_spins);

  const int n_workers_;
  int64_t barrier_spins_ = 0;
  int64_t idle_spins_ = 0;

  // Written by worker 0 before `epoch_` moves, read by the others after.
  Entry entry_ = nullptr;
  const void* body_ = nullptr;
  bool stopping_ = false;

  alignas(64) std::atomic<int32_t> epoch_ = 0;  // one more per region
  alignas(64) std::atomic<int32_t> arrived_ = 0;
  alignas(64) std::atomic<int32_t> generation_ = 0;  // one more per barrier
  Line queues_[kQueues];

  std::vector<std::thread> threads_;
};

// A worker's view of the region it is in.
class ThreadPool::Worker {
 public:
  int index() const { return index_; }
  int count() const { return pool_.n_workers_; }

  // Waits until every worker has come here. What they wrote before is visible after.
  void barrier() {
    if (count() > 1) pool_.arrive_and_wait(queue_);
    queue_ = 0;
  }

  // Shares the chunks [0, n) among the workers: each takes the chunk of its own index first and then the next that is
  // left, so a worker that is held up takes fewer. Calls body(chunk); does not wait for the others.
  // REQUIRES: all workers make the same calls, and at most 4 between two barriers.
  template <class Body>
  void for_chunks(int64_t n, const Body& body) {
    if (count() == 1) {
      for (int64_t chunk = 0; chunk < n; ++chunk) body(chunk);
      return;
    }
    T9_DCHECK(queue_ < kQueues);
    std::atomic<int64_t>& taken = pool_.queues_[queue_++].value;
    int64_t chunk = index_;
    while (chunk < n) {
      body(chunk);
      chunk = count() + taken.fetch_add(1, std::memory_order_relaxed);
    }
  }

 private:
  friend class ThreadPool;
  Worker(ThreadPool& pool, int index) : pool_(pool), index_(index) {}

  ThreadPool& pool_;
  const int index_;
  int queue_ = 0;  // queues used since the last barrier
};

template <class Body>
void ThreadPool::run(const Body& body) {
  run_region([](const void* b, Worker& worker) { (*static_cast<const Body*>(b))(worker); }, &body);
}

}  // namespace tempo9
