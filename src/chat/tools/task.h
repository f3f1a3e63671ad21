// Coroutines that parse text which is still arriving: written as if all of it were there, suspended where it runs out
// (text_source.h).
//
// g++ 12 compiles a coroutine that awaits inside a condition wrongly if it declares no variable at all: there, name
// what is awaited first. It also refuses initializer lists in the frame.
#pragma once

#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>

namespace tempo9::chat::tools {

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> awaiting;  // set once the caller has suspended

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) noexcept {
      const std::coroutine_handle<> next = ended.promise().awaiting;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };

  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() { throw; }  // out of the resume() that ran the coroutine, into its caller
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  std::coroutine_handle<Promise> get_return_object() { return std::coroutine_handle<Promise>::from_promise(*this); }
  void return_value(T result) { value = std::move(result); }
};

template <>
struct Promise<void> : PromiseBase {
  std::coroutine_handle<Promise> get_return_object() { return std::coroutine_handle<Promise>::from_promise(*this); }
  void return_void() {}
};

}  // namespace detail

// Starts when it is awaited, or by start(). Owns its frame.
template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;

  Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (frame_) frame_.destroy();
  }

  void start() { frame_.resume(); }

  // A task that ends without suspending costs its caller no stack: it runs inside this call and returns, which a
  // transfer of control would not promise in unoptimised builds.
  bool await_ready() const { return false; }
  bool await_suspend(std::coroutine_handle<> caller) {
    frame_.resume();
    if (frame_.done()) return false;
    frame_.promise().awaiting = caller;
    return true;
  }
  T await_resume() {
    if constexpr (!std::is_void_v<T>) return *std::move(frame_.promise().value);
  }

 private:
  std::coroutine_handle<promise_type> frame_;
};

}  // namespace tempo9::chat::tools
