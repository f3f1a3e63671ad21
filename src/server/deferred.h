// A value that one thread makes while another waits for it, unless it has gone.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace tempo9::server {

// Shared by one maker and one waiter.
template <class T>
class Deferred {
 public:
  // The maker's. A value that nobody waits for any more comes back.
  std::optional<T> finish(T value) {
    const std::lock_guard hold(mutex_);
    if (is_cancelled()) return value;
    value_ = std::move(value);
    if (ready_) ready_();
    return std::nullopt;
  }
  bool is_cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // The waiter's: the value, once, when it is there.
  std::optional<T> take() {
    const std::lock_guard hold(mutex_);
    return std::exchange(value_, std::nullopt);
  }
  // The waiter has gone. Gives a value that was made and not taken.
  std::optional<T> cancel() {
    const std::lock_guard hold(mutex_);
    cancelled_.store(true, std::memory_order_relaxed);
    return std::exchange(value_, std::nullopt);
  }
  // `ready` is called when the value is there, under the lock: once this returns, the old one is not running.
  void notify(std::function<void()> ready) {
    const std::lock_guard hold(mutex_);
    ready_ = std::move(ready);
  }

 private:
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::optional<T> value_;
  std::function<void()> ready_;
};

}  // namespace tempo9::server
