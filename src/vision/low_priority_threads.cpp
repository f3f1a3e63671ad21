#include "vision/low_priority_threads.h"

#include "base/low_priority.h"

namespace tempo9::vision {

LowPriorityThreads::LowPriorityThreads(int n_threads) : n_threads_(n_threads), thread_([this] { work(); }) {}

LowPriorityThreads::~LowPriorityThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LowPriorityThreads::run(const std::function<void(ThreadPool&)>& f) {
  std::unique_lock lock(mutex_);
  task_ = &f;
  changed_.notify_all();
  changed_.wait(lock, [this] { return task_ == nullptr; });
}

void LowPriorityThreads::work() {
  lower_priority_of_this_thread(kImageNice);
  ThreadPool pool(n_threads_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return task_ != nullptr || stopping_; });
    if (stopping_) return;
    const auto& task = *task_;
    lock.unlock();
    task(pool);
    lock.lock();
    task_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace tempo9::vision
