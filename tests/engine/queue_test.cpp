#include <gtest/gtest.h>

#include <thread>

#include "engine/event_queue.h"
#include "engine/limits.h"
#include "engine/wait_queue.h"

namespace tempo9::engine {
namespace {

std::unique_ptr<Sequence> waiting(std::string client, std::string id) {
  return std::make_unique<Sequence>(Sequence{.id = std::move(id),
                                             .client = std::move(client),
                                             .tokens = {},
                                             .pages = {},
                                             .sampler = Sampler({}),
                                             .output = Output({}, false),
                                             .events = nullptr,
                                             .submitted = {},
                                             .first_row = {},
                                             .first_token = {},
                                             .last_token = {}});
}

std::string pop(WaitQueue& queue) {
  const auto sequence = queue.pop_if([](const Sequence&) { return true; });
  return sequence ? sequence->id : "";
}

TEST(WaitQueue, ServesClientsInTurnAndEachInOrder) {
  WaitQueue queue(10);
  for (const char* id : {"a1", "a2", "a3", "b1", "c1", "b2"}) queue.push(waiting(std::string(1, id[0]), id));
  std::string order;
  while (queue.size() > 0) order += pop(queue) + " ";
  EXPECT_EQ(order, "a1 b1 c1 a2 b2 a3 ");
  EXPECT_EQ(pop(queue), "");
}

TEST(WaitQueue, ARefusedOneKeepsItsTurn) {
  WaitQueue queue(10);
  queue.push(waiting("a", "a1"));
  queue.push(waiting("b", "b1"));
  EXPECT_EQ(queue.pop_if([](const Sequence&) { return false; }), nullptr);
  EXPECT_EQ(pop(queue), "a1");
}

TEST(WaitQueue, IsBoundedAndForgetsExtracted) {
  WaitQueue queue(3);
  for (const char* id : {"a1", "b1", "a2"}) queue.push(waiting(std::string(1, id[0]), id));
  EXPECT_TRUE(queue.is_full());
  EXPECT_EQ(queue.extract([](const Sequence& s) { return s.client == "a"; }).size(), 2u);
  EXPECT_EQ(queue.size(), 1);
  EXPECT_EQ(pop(queue), "b1");
}

Event text_event(std::string text) {
  Event event;
  event.text = std::move(text);
  return event;
}

Event last_event() {
  Event event;
  event.finish = FinishReason::kStop;
  return event;
}

TEST(EventQueue, NotifiesOnceAfterAPollThatFoundNothing) {
  EventQueue events(std::make_shared<Waker>());
  int n_calls = 0;
  events.notify([&] { ++n_calls; });
  EXPECT_EQ(n_calls, 0);
  events.push(text_event("a"));
  EXPECT_EQ(n_calls, 1);
  events.push(text_event("b"));
  EXPECT_EQ(n_calls, 1);
  EXPECT_EQ(events.poll()->text, "a");
  EXPECT_EQ(events.poll()->text, "b");
  events.push(text_event("c"));
  EXPECT_EQ(n_calls, 1) << "no poll has found the queue empty";
  EXPECT_EQ(events.poll()->text, "c");
  EXPECT_FALSE(events.poll());
  events.push(last_event());
  EXPECT_EQ(n_calls, 2);
}

TEST(EventQueue, NotifyCallsAtOnceWhenAnEventIsReadyAndCanBeUnset) {
  EventQueue events(std::make_shared<Waker>());
  events.push(text_event("a"));
  int n_calls = 0;
  events.notify([&] { ++n_calls; });
  EXPECT_EQ(n_calls, 1);
  EXPECT_TRUE(events.poll());
  EXPECT_FALSE(events.poll());
  events.notify({});
  events.push(text_event("b"));
  EXPECT_EQ(n_calls, 1);
}

TEST(EventQueue, IsFullAtTheLimitAndWakesTheEngineWhenRead) {
  const auto waker = std::make_shared<Waker>();
  EventQueue events(waker);
  for (size_t i = 0; i + 1 < kMaxStreamEvents; ++i) events.push(text_event("x"));
  EXPECT_FALSE(events.is_full());
  events.push(text_event("x"));
  EXPECT_TRUE(events.is_full());
  std::thread engine([&] { waker->wait(); });
  EXPECT_TRUE(events.poll());
  engine.join();
  EXPECT_FALSE(events.is_full());
}

TEST(EventQueue, LettingGoOfTheStreamCancels) {
  const auto events = std::make_shared<EventQueue>(std::make_shared<Waker>());
  make_stream(events);
  EXPECT_TRUE(events->is_cancelled());
}

TEST(EventQueue, AConsumerOnAnotherThreadSeesEveryEventInOrder) {
  const auto events = std::make_shared<EventQueue>(std::make_shared<Waker>());
  const auto stream = make_stream(events);
  std::thread engine([&] {
    for (int i = 0; i < 500; ++i) events->push(text_event(std::to_string(i)));
    events->push(last_event());
  });
  for (int i = 0; i < 500; ++i) EXPECT_EQ(stream->wait().text, std::to_string(i));
  EXPECT_TRUE(stream->wait().finish);
  engine.join();
}

}  // namespace
}  // namespace tempo9::engine
