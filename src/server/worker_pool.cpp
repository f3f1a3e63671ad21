#include "server/worker_pool.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace tempo9::server {

WorkerPool::WorkerPool(int n_threads) {
  for (int i = 0; i < n_threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard hold(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::post(std::function<void()> job) {
  {
    const std::lock_guard hold(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void WorkerPool::run() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock hold(mutex_);
      changed_.wait(hold, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    try {
      job();
    } catch (const std::exception& e) {
      spdlog::error("event=job_failed what=\"{}\"", e.what());
    }
  }
}

}  // namespace tempo9::server
