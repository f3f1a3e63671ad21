#include "engine/event_queue.h"

#include <utility>

#include "base/check.h"
#include "engine/limits.h"

namespace tempo9::engine {
namespace {

class ClientStream : public Stream {
 public:
  explicit ClientStream(std::shared_ptr<EventQueue> events) : events_(std::move(events)) {}
  ~ClientStream() override {
    events_->notify({});
    events_->cancel();
  }

  std::optional<Event> poll() override { return events_->poll(); }
  void notify(std::function<void()> callback) override { events_->notify(std::move(callback)); }
  Event wait() override { return events_->wait(); }
  void cancel() override { events_->cancel(); }
  void end() override { events_->end(); }

 private:
  const std::shared_ptr<EventQueue> events_;
};

}  // namespace

std::shared_ptr<Stream> make_stream(std::shared_ptr<EventQueue> events) {
  return std::make_shared<ClientStream>(std::move(events));
}

void EventQueue::push(Event event) {
  const std::lock_guard lock(mutex_);
  T9_CHECK(!ended_);
  ended_ = event.finish.has_value() || event.error.has_value();
  events_.push_back(std::move(event));
  ready_.notify_all();
  announce();
}

bool EventQueue::is_full() const {
  const std::lock_guard lock(mutex_);
  return events_.size() >= kMaxStreamEvents;
}

Event EventQueue::pop() {
  const bool was_full = events_.size() >= kMaxStreamEvents;
  Event event = std::move(events_.front());
  events_.pop_front();
  if (was_full && events_.size() < kMaxStreamEvents) engine_->wake();
  return event;
}

void EventQueue::announce() {
  if (!armed_ || !callback_) return;
  armed_ = false;
  callback_();
}

std::optional<Event> EventQueue::poll() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) {
    armed_ = true;
    return std::nullopt;
  }
  return pop();
}

void EventQueue::notify(std::function<void()> callback) {
  std::function<void()> old;  // may own things: destroyed after the lock is gone
  const std::lock_guard lock(mutex_);
  old = std::exchange(callback_, std::move(callback));
  armed_ = true;
  if (!events_.empty()) announce();
}

Event EventQueue::wait() {
  std::unique_lock lock(mutex_);
  T9_CHECK_MSG(!ended_ || !events_.empty(), "wait after the last event");
  ready_.wait(lock, [this] { return !events_.empty(); });
  return pop();
}

void EventQueue::cancel() {
  if (!cancelled_.exchange(true, std::memory_order_acq_rel)) engine_->wake();
}

void EventQueue::end() {
  if (is_cancelled()) return;
  complete_.store(true, std::memory_order_relaxed);
  cancel();
}

}  // namespace tempo9::engine
