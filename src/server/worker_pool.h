// Threads for work that is too long for the network threads: parsing, rendering and tokenizing requests.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tempo9::server {

// First in, first out. Not bounded here: every job belongs to an open connection, and those are.
class WorkerPool {
 public:
  explicit WorkerPool(int n_threads);
  // Runs what is queued, then joins.
  ~WorkerPool();

  void post(std::function<void()> job);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tempo9::server
