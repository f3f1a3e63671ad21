#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tempo9 {
namespace {

// A region has a barrier every 10 to 100 us of work, so the others are rarely late by more than this.
constexpr double kBarrierSpinUs = 20;
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

// The lowest-numbered hardware thread on the core of `cpu`, which the kernel lists first ("0,32" or "0-1").
int first_sibling(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first = cpu;
  return file >> first ? first : cpu;
}

}  // namespace

int n_usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  std::vector<int> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cores.push_back(first_sibling(cpu));
  }
  std::ranges::sort(cores);
  return std::max<int>(1, static_cast<int>(std::ranges::unique(cores).begin() - cores.begin()));
}

ThreadPool::ThreadPool(int n_workers) : n_workers_(n_workers) {
  T9_CHECK(n_workers >= 1);
  if (n_workers > 1 && n_workers <= n_usable_cores()) {
    const double pause_us = measure_pause_us();
    barrier_spins_ = static_cast<int64_t>(kBarrierSpinUs / pause_us);
    idle_spins_ = static_cast<int64_t>(kIdleSpinUs / pause_us);
  }
  for (int i = 1; i < n_workers; ++i) threads_.emplace_back([this, i] { thread_main(i); });
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::wait_for_change(const std::atomic<int32_t>& word, int32_t old, int64_t n_spins) {
  for (int64_t i = 0; i < n_spins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  word.wait(old, std::memory_order_acquire);
}

void ThreadPool::arrive_and_wait(int n_used_queues) {
  const int32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < n_workers_) {
    wait_for_change(generation_, generation, barrier_spins_);
    return;
  }
  // The last to come: nobody touches the queues until the generation moves.
  arrived_.store(0, std::memory_order_relaxed);
  for (int i = 0; i < n_used_queues; ++i) queues_[i].value.store(0, std::memory_order_relaxed);
  generation_.store(generation + 1, std::memory_order_release);
  generation_.notify_all();
}

void ThreadPool::run_region(Entry entry, const void* body) {
  entry_ = entry;
  body_ = body;
  if (n_workers_ > 1) {
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }
  Worker worker(*this, 0);
  entry(body, worker);
  worker.barrier();
}

void ThreadPool::thread_main(int index) {
  int32_t seen = 0;
  while (true) {
    wait_for_change(epoch_, seen, idle_spins_);
    ++seen;
    if (stopping_) return;
    Worker worker(*this, index);
    entry_(body_, worker);
    worker.barrier();
  }
}

}  // namespace tempo9
