#include "vision/low_priority_threads.h"

#ifdef __linux__
#include <sys/resource.h>
#endif

namespace tempo9::vision {
namespace {

// Each step of nice is a weight of 1 / 1.25. With two decoding threads and one of the tower on two cores, the tower's
// share is 0.57 of a core (an image takes 1.75 times as long as alone), and decoding keeps 0.71 of its own; a nice of 3
// would make that 2.4 times and 0.80. Both are to be better than 2 and 0.5.
constexpr int kNice = 1;

void lower_priority_of_this_thread() {
#ifdef __linux__
  const int nice = getpriority(PRIO_PROCESS, 0);
  setpriority(PRIO_PROCESS, 0, nice + kNice);  // of the thread alone; failing changes nothing but the share
#endif
}

}  // namespace

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
  lower_priority_of_this_thread();
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
