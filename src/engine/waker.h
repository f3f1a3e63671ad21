// What the engine thread sleeps on when there is nothing to compute.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tempo9::engine {

// Any thread may wake; one thread waits. A wake before the wait is not lost.
class Waker {
 public:
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      awake_ = true;
    }
    condition_.notify_one();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return awake_; });
    awake_ = false;
  }
  // False when nobody woke it for so long.
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    const bool was_woken = condition_.wait_for(lock, time, [this] { return awake_; });
    awake_ = false;
    return was_woken;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool awake_ = false;
};

}  // namespace tempo9::engine
