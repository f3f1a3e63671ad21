#include "cli/stop_signals.h"

#include <unistd.h>

namespace tempo9::cli {

namespace {

constexpr int kEndOfThread = SIGUSR1;

}  // namespace

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, kEndOfThread}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this] { run(); });
}

StopSignals::~StopSignals() {
  pthread_kill(thread_.native_handle(), kEndOfThread);
  thread_.join();
}

void StopSignals::expect() {
  const std::lock_guard hold(mutex_);
  is_expected_ = true;
}

void StopSignals::wait() {
  std::unique_lock hold(mutex_);
  changed_.wait(hold, [this] { return is_stopping_; });
}

void StopSignals::run() {
  for (;;) {
    int signal = 0;
    sigwait(&signals_, &signal);
    if (signal == kEndOfThread) return;
    const std::lock_guard hold(mutex_);
    if (!is_expected_ || is_stopping_) _exit(128 + signal);
    is_stopping_ = true;
    changed_.notify_all();
  }
}

}  // namespace tempo9::cli
