// The tower's thread group: a pool whose threads all yield to others of this process. On Linux they have a nice value
// of their own, which children inherit, so a thread of its own makes the pool. (Elsewhere nothing is lowered.)
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/thread_pool.h"

namespace tempo9::vision {

// Steps of nice, each a weight of 1 / 1.25. With two decoding threads and one of the tower on two cores (a Xeon with
// AMX, 2B shape, one stream, 512 x 512 pixels) an image takes 1.6 times as long as alone at 5 steps and 2.3 at 7;
// decoding keeps 0.61 and 0.71 of its rate meanwhile. An image may take twice as long and decoding is to keep half, the
// reading of the image's prompt included.
inline constexpr int kImageNice = 5;

class LowPriorityThreads {
 public:
  // REQUIRES: n_threads >= 1.
  explicit LowPriorityThreads(int n_threads);
  ~LowPriorityThreads();
  LowPriorityThreads(const LowPriorityThreads&) = delete;
  LowPriorityThreads& operator=(const LowPriorityThreads&) = delete;

  int n_threads() const { return n_threads_; }
  // Calls f with the pool in its first thread and returns when f has. From one thread at a time.
  void run(const std::function<void(ThreadPool&)>& f);

 private:
  void work();

  const int n_threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  const std::function<void(ThreadPool&)>* task_ = nullptr;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace tempo9::vision
