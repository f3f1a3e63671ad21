// What goes on, for the status page: requests under way, with a way to end one, and the last ones that have ended.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/service.h"

namespace tempo9::server {

// A request that generates, from its arrival to its end. Its answer writes; the page reads, from another thread.
class ActiveRequest {
 public:
  using Clock = std::chrono::steady_clock;

  ActiveRequest(std::string id, std::string path) : id_(std::move(id)), path_(std::move(path)) {}

  // It is in the engine's queue. One that was cancelled before ends at once.
  void note_submitted(int64_t prompt_tokens, std::vector<std::shared_ptr<engine::Stream>> streams);
  // An event of one of its streams.
  void note_event(const engine::Event& event);
  // Ends its streams; safe to repeat, and before there are any.
  void cancel();
  bool is_cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  const std::string& id() const { return id_; }
  const std::string& path() const { return path_; }
  double age_s() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  // "preparing" (its prompt is made), "waiting" (for its first token), "answering".
  std::string_view state() const;
  int64_t prompt_tokens() const { return prompt_tokens_.load(std::memory_order_relaxed); }
  int64_t completion_tokens() const { return completion_tokens_.load(std::memory_order_relaxed); }
  // Of its streams that have ended, together.
  engine::Usage usage() const;
  std::string finish() const;

 private:
  const std::string id_;
  const std::string path_;
  const Clock::time_point started_ = Clock::now();
  std::atomic<bool> cancelled_ = false;
  std::atomic<int64_t> prompt_tokens_ = -1;  // below 0: not submitted yet
  std::atomic<int64_t> completion_tokens_ = 0;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<engine::Stream>> streams_;
  engine::Usage usage_;
  std::string finish_ = "error";
};

// Of a request that has ended.
struct EndedRequest {
  uint64_t number = 0;  // counts up
  std::string path;
  std::string finish;  // "stop", "length", "cancelled", "error"
  engine::Usage usage;
};

class Activity {
 public:
  std::shared_ptr<ActiveRequest> begin(std::string id, std::string path);
  void end(const ActiveRequest& request);
  // False when there is no such request, or no more.
  bool cancel(std::string_view id);

  // In the order of arrival.
  std::vector<std::shared_ptr<const ActiveRequest>> active() const;
  // The last kShownRequests that had a first token, the oldest first.
  std::vector<EndedRequest> ended() const;

 private:
  mutable std::mutex mutex_;
  uint64_t n_begun_ = 0;
  uint64_t n_ended_ = 0;
  std::map<uint64_t, std::shared_ptr<ActiveRequest>> active_;  // by arrival
  std::deque<EndedRequest> ended_;
};

}  // namespace tempo9::server
