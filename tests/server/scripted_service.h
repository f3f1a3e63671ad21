// An engine that plays what a test tells it to, when the test tells it to.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/service.h"

namespace tempo9::testing {

inline constexpr std::chrono::seconds kPatience{10};  // for things that must happen; nothing waits this long in vain

inline engine::Event text_event(std::string text) {
  engine::Event event;
  event.text = std::move(text);
  return event;
}

inline engine::Event last_event(engine::FinishReason reason, engine::Usage usage = {}) {
  engine::Event event;
  event.finish = reason;
  event.usage = usage;
  return event;
}

inline engine::Event failed_event(Error error) {
  engine::Event event;
  event.error = std::move(error);
  return event;
}

class ScriptedStream : public engine::Stream {
 public:
  explicit ScriptedStream(engine::Request asked) : request(std::move(asked)) {}

  const engine::Request request;

  void push(engine::Event event) {
    const std::lock_guard hold(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
    if (ready_) ready_();
  }

  std::optional<engine::Event> poll() override {
    const std::lock_guard hold(mutex_);
    if (events_.empty()) return std::nullopt;
    engine::Event event = std::move(events_.front());
    events_.pop_front();
    changed_.notify_all();
    return event;
  }

  void notify(std::function<void()> callback) override {
    const std::lock_guard hold(mutex_);
    ready_ = std::move(callback);
    if (ready_ && !events_.empty()) ready_();
  }

  engine::Event wait() override {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [this] { return !events_.empty(); });
    engine::Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  void end() override { cancel(); }
  void cancel() override {
    const std::lock_guard hold(mutex_);
    ++n_cancelled_;
    changed_.notify_all();
  }

  bool wait_cancelled() {
    std::unique_lock hold(mutex_);
    return changed_.wait_for(hold, kPatience, [this] { return n_cancelled_ > 0; });
  }
  bool is_cancelled() const {
    const std::lock_guard hold(mutex_);
    return n_cancelled_ > 0;
  }
  size_t n_unread() const {
    const std::lock_guard hold(mutex_);
    return events_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<engine::Event> events_;
  std::function<void()> ready_;
  int n_cancelled_ = 0;
};

class ScriptedService : public engine::Service {
 public:
  // Every request is answered with these texts, then `reason`. Without a script, streams wait for the test's events.
  void answer_with(std::vector<std::string> texts, engine::FinishReason reason = engine::FinishReason::kStop) {
    std::vector<engine::Event> events;
    for (std::string& text : texts) events.push_back(text_event(std::move(text)));
    events.push_back(last_event(reason));
    play(std::move(events));
  }
  void play(std::vector<engine::Event> events) {
    const std::lock_guard hold(mutex_);
    script_ = std::move(events);
  }
  void refuse_with(std::optional<Error> error) {
    const std::lock_guard hold(mutex_);
    refusal_ = std::move(error);
  }
  void set_stats(const engine::ServiceStats& stats) {
    const std::lock_guard hold(mutex_);
    stats_ = stats;
  }
  void set_context_length(int64_t n_tokens) {
    const std::lock_guard hold(mutex_);
    context_length_ = n_tokens;
  }

  // The next request that has not been handed out yet; null when none comes.
  std::shared_ptr<ScriptedStream> next_stream() {
    std::unique_lock hold(mutex_);
    if (!submitted_.wait_for(hold, kPatience, [this] { return !streams_.empty(); })) return nullptr;
    auto stream = std::move(streams_.front());
    streams_.pop_front();
    return stream;
  }
  size_t n_submitted() const {
    const std::lock_guard hold(mutex_);
    return n_submitted_;
  }

  Result<std::shared_ptr<engine::Stream>> submit(engine::Request request) override {
    const std::lock_guard hold(mutex_);
    if (refusal_) return fail(*refusal_);
    auto stream = std::make_shared<ScriptedStream>(std::move(request));
    for (const engine::Event& event : script_) stream->push(event);
    streams_.push_back(stream);
    ++n_submitted_;
    submitted_.notify_all();
    return stream;
  }
  engine::ServiceStats stats() const override {
    const std::lock_guard hold(mutex_);
    return stats_;
  }
  int64_t context_length() const override {
    const std::lock_guard hold(mutex_);
    return context_length_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable submitted_;
  std::vector<engine::Event> script_;
  std::optional<Error> refusal_;
  engine::ServiceStats stats_;
  int64_t context_length_ = 4096;
  std::deque<std::shared_ptr<ScriptedStream>> streams_;
  size_t n_submitted_ = 0;
};

}  // namespace tempo9::testing
