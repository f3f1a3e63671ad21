#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#include "base/check.h"

#ifdef __linux__
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tempo9 {
namespace {

// A stage is 10 to 100 us of work, so the others are rarely late by more than this.
constexpr double kStageSpinUs = 20;
// Between two decode steps lies the sampling of a token.
constexpr double kIdleSpinUs = 100;

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// What a pause costs differs by a factor of ten between CPUs. The least of a few rounds: another process can only make
// one longer.
double measure_pause_us() {
  constexpr int kPauses = 256;
  double best = 1e9;
  for (int round = 0; round < 8; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kPauses; ++i) pause_cpu();
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
    best = std::min(best, spent.count() / kPauses);
  }
  return std::max(best, 1e-3);
}

#ifdef __linux__
// The lowest-numbered hardware thread on the core of `cpu`, which the kernel lists first ("0,32" or "0-1").
int first_sibling(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first = cpu;
  return file >> first ? first : cpu;
}
#endif

}  // namespace

int n_usable_cores() {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  std::vector<int> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cores.push_back(first_sibling(cpu));
  }
  std::ranges::sort(cores);
  return std::max<int>(1, static_cast<int>(std::ranges::unique(cores).begin() - cores.begin()));
#else
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#endif
}

// stage_ as fields: from the top 16 bits of stage, 24 of chunks, 24 of chunks taken. The last field can run past the
// number of chunks by one per worker, since each asks in vain once and then waits for a change.
struct ThreadPool::Claim {
  static constexpr int kBits = 24;
  static constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;

  explicit Claim(uint64_t word) : word_(word) {}
  static uint64_t open(int64_t stage, int64_t n_chunks) {
    return static_cast<uint64_t>(stage) << (2 * kBits) | static_cast<uint64_t>(n_chunks) << kBits;
  }

  int64_t stage() const { return static_cast<int64_t>(word_ >> (2 * kBits)); }
  int64_t n_chunks() const { return static_cast<int64_t>(word_ >> kBits & kMask); }
  int64_t chunk() const { return static_cast<int64_t>(word_ & kMask); }
  bool is_valid() const { return chunk() < n_chunks(); }

 private:
  uint64_t word_;
};

namespace {

// Returns once `word` is no longer `old`.
void wait_for_change(const std::atomic<int32_t>& word, int32_t old, int64_t n_spins) {
  for (int64_t i = 0; i < n_spins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int n_workers) : n_workers_(n_workers) {
  T9_CHECK(n_workers >= 1);
  if (n_workers > 1 && n_workers <= n_usable_cores()) {
    const double pause_us = measure_pause_us();
    stage_spins_ = static_cast<int64_t>(kStageSpinUs / pause_us);
    idle_spins_ = static_cast<int64_t>(kIdleSpinUs / pause_us);
  }
  for (int i = 1; i < n_workers; ++i) threads_.emplace_back([this, i] { take_part(i); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_release);
  announce();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(const StagedWork& work) {
  T9_CHECK(work.n_stages() < int64_t{1} << 16);
  if (n_workers_ == 1) {
    for (int64_t stage = 0; stage < work.n_stages(); ++stage) {
      const int64_t n = work.n_chunks(stage);
      for (int64_t chunk = 0; chunk < n; ++chunk) work.run_chunk(stage, chunk, 0);
    }
    return;
  }
  work_ = &work;
  finished_.store(false, std::memory_order_relaxed);
  begin_stage_after(-1, 0);
  take_part(0);
}

// Worker 0 leaves when the work is done, the others when the pool ends.
void ThreadPool::take_part(int worker) {
  const std::atomic<bool>& leave = worker == 0 ? finished_ : stopping_;
  while (true) {
    const int32_t seen = n_changes_.load(std::memory_order_acquire);
    if (leave.load(std::memory_order_acquire)) return;
    const Claim claim(stage_.fetch_add(1, std::memory_order_acq_rel));
    if (claim.is_valid()) {
      run_chunks(claim, worker);
    } else {
      wait_for_others(seen, claim.n_chunks() == 0 ? idle_spins_ : stage_spins_, worker);
    }
  }
}

void ThreadPool::wait_for_others(int32_t seen, int64_t n_spins, int worker) {
  if (worker != 0) return wait_for_change(n_changes_, seen, n_spins);
  const auto begin = std::chrono::steady_clock::now();
  wait_for_change(n_changes_, seen, n_spins);
  waited_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The stage can't end before the chunks taken here are counted, so all claims are of the same stage.
void ThreadPool::run_chunks(Claim claim, int worker) {
  const int64_t stage = claim.stage();
  const int64_t n = claim.n_chunks();
  int64_t n_mine = 0;
  while (claim.is_valid()) {
    work_->run_chunk(stage, claim.chunk(), worker);
    ++n_mine;
    if (claim.chunk() + 1 == n) break;  // nothing is left to ask for
    claim = Claim(stage_.fetch_add(1, std::memory_order_acq_rel));
  }
  if (n_done_.fetch_add(n_mine, std::memory_order_acq_rel) + n_mine == n) begin_stage_after(stage, worker);
}

// Only one worker is here at a time, and nobody has a chunk in hand.
void ThreadPool::begin_stage_after(int64_t stage, int worker) {
  n_done_.store(0, std::memory_order_relaxed);
  for (++stage; stage < work_->n_stages(); ++stage) {
    const int64_t n = work_->n_chunks(stage);
    T9_DCHECK(n < int64_t{1} << (Claim::kBits - 1));
    if (n > 1) {
      stage_.store(Claim::open(stage, n), std::memory_order_release);
      announce();
      return;
    }
    if (n == 1) work_->run_chunk(stage, 0, worker);
  }
  stage_.store(Claim::open(0, 0), std::memory_order_release);
  // From here on run() may return and begin the next work: nothing of this one may be touched.
  finished_.store(true, std::memory_order_release);
  announce();
}

void ThreadPool::announce() {
  n_changes_.fetch_add(1, std::memory_order_release);
  n_changes_.notify_all();
}

}  // namespace tempo9
