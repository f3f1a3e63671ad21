// The bounded queue of events between the engine thread and a request's consumer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/request.h"
#include "engine/service.h"
#include "engine/waker.h"

namespace tempo9::engine {

// The engine thread pushes; the consumer does the rest, through a Stream. Lives as long as either holds it.
class EventQueue {
 public:
  // `engine` is woken when a consumer makes room in a full queue and when it cancels.
  explicit EventQueue(std::shared_ptr<Waker> engine) : engine_(std::move(engine)) {}

  // The last event (finish or error set) is taken even when the queue is full. REQUIRES: no push after the last one.
  void push(Event event);
  // The consumer is behind: its sequence is to pause.
  bool is_full() const;
  bool is_cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Of a cancelled one: its consumer has the whole answer.
  bool is_complete() const { return complete_.load(std::memory_order_relaxed); }

  // As in Stream.
  std::optional<Event> poll();
  void notify(std::function<void()> callback);
  Event wait();
  void cancel();
  void end();

 private:
  Event pop();      // REQUIRES: mutex_ held, events_ not empty
  void announce();  // REQUIRES: mutex_ held

  const std::shared_ptr<Waker> engine_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> complete_ = false;  // set before cancelled_

  mutable std::mutex mutex_;  // guards what follows, and is held while the callback runs
  std::condition_variable ready_;
  std::deque<Event> events_;
  std::function<void()> callback_;
  bool armed_ = true;  // the consumer knows of no unread event
  bool ended_ = false;
};

// The consumer's end. Letting go of it is the same as cancelling.
std::shared_ptr<Stream> make_stream(std::shared_ptr<EventQueue> events);

}  // namespace tempo9::engine
