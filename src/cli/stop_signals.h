// SIGINT and SIGTERM as something to wait for. The first asks for an orderly end, the second ends the process at once.
#pragma once

#include <signal.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace tempo9::cli {

// Create it before any other thread: the signals are blocked in the creating thread and in those it starts later.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();

  // From now on the first signal asks for an orderly end. Until this is called, it ends the process as well.
  void expect();
  void wait();

 private:
  void run();

  sigset_t signals_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_expected_ = false;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace tempo9::cli
