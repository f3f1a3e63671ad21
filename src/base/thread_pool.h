// The compute threads. They work through stages; the chunks of a stage are shared among the threads as they come for
// them.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tempo9 {

// Physical cores that this process may run on (its affinity mask; of hardware threads that share a core one counts).
int n_usable_cores();

// What a pool is given to do. A stage begins when all chunks of the one before are done, and sees what they wrote.
class StagedWork {
 public:
  virtual int64_t n_stages() const = 0;  // < 2^16
  // Chunks of a stage, < 2^23; may be 0. Asked once, just before the stage begins.
  virtual int64_t n_chunks(int64_t stage) const = 0;
  // Called once per chunk, in no order, by any worker. `worker` is in [0, n_workers) and tells apart the calls that run
  // at the same time.
  virtual void run_chunk(int64_t stage, int64_t chunk, int worker) const = 0;

 protected:
  ~StagedWork() = default;
};

// A fixed set of threads. Who calls run() is worker 0, so a pool of 1 has no thread of its own.
//
// No thread waits for another that has nothing in hand: a stage ends when its chunks are done, wherever the other
// workers are. So a worker whose core another process has taken holds the rest up by the one chunk it was in, and comes
// back to whatever stage is current. (With barriers, at which all must arrive, two threads beside busy processes
// decoded slower than one alone.) A stage of one chunk is run by the worker that completed the stage before,
// without a word to the others. Waiting is spinning for some microseconds and then sleeping; with more workers than
// cores it is sleeping at once.
//
// Used from one thread at a time.
class ThreadPool {
 public:
  // REQUIRES: n_workers >= 1.
  explicit ThreadPool(int n_workers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_workers() const { return n_workers_; }

  // Returns when all stages are done.
  void run(const StagedWork& work);
  // Seconds since start that the caller of run() waited for other threads' chunks. To be asked by that thread.
  double waited_s() const { return waited_s_; }

 private:
  struct Claim;

  void take_part(int worker);
  void run_chunks(Claim claim, int worker);
  void begin_stage_after(int64_t stage, int worker);
  void announce();
  void wait_for_others(int32_t seen, int64_t n_spins, int worker);

  const int n_workers_;
  int64_t stage_spins_ = 0;
  int64_t idle_spins_ = 0;
  double waited_s_ = 0.0;  // worker 0's

  const StagedWork* work_ = nullptr;  // read only by who holds a chunk of it

  // The current stage, its chunks and how many are taken, in one word: adding 1 takes the next chunk and says at once
  // which it is and whether it exists.
  alignas(64) std::atomic<uint64_t> stage_ = 0;
  alignas(64) std::atomic<int64_t> n_done_ = 0;     // chunks of the current stage
  alignas(64) std::atomic<int32_t> n_changes_ = 0;  // of stage_; what the workers wait on
  std::atomic<bool> finished_ = true;               // the last stage of run() is done
  std::atomic<bool> stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace tempo9
