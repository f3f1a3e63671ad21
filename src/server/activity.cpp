#include "server/activity.h"

#include <algorithm>

#include "server/limits.h"

namespace tempo9::server {

void ActiveRequest::note_submitted(int64_t prompt_tokens, std::vector<std::shared_ptr<engine::Stream>> streams) {
  prompt_tokens_.store(prompt_tokens, std::memory_order_relaxed);
  {
    const std::lock_guard hold(mutex_);
    streams_ = std::move(streams);
  }
  if (is_cancelled()) cancel();
}

void ActiveRequest::note_event(const engine::Event& event) {
  completion_tokens_.fetch_add(std::ssize(event.tokens), std::memory_order_relaxed);
  if (!event.finish && !event.error) return;
  const std::lock_guard hold(mutex_);
  const bool is_first = usage_.prompt_tokens == 0;
  engine::Usage sum = is_first ? event.usage : usage_;
  if (!is_first) sum.completion_tokens += event.usage.completion_tokens;
  if (!is_first && sum.energy_j) *sum.energy_j += event.usage.energy_j.value_or(0.0);
  usage_ = sum;
  if (event.finish) {
    finish_ = *event.finish == engine::FinishReason::kStop ? "stop" : "length";
  } else {
    finish_ = event.error->code() == ErrorCode::kCancelled ? "cancelled" : "error";
  }
}

void ActiveRequest::cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  std::vector<std::shared_ptr<engine::Stream>> streams;
  {
    const std::lock_guard hold(mutex_);
    streams = streams_;
  }
  for (const auto& stream : streams) stream->cancel();
}

std::string_view ActiveRequest::state() const {
  if (prompt_tokens() < 0) return "preparing";
  return completion_tokens() == 0 ? "waiting" : "answering";
}

engine::Usage ActiveRequest::usage() const {
  const std::lock_guard hold(mutex_);
  return usage_;
}

std::string ActiveRequest::finish() const {
  const std::lock_guard hold(mutex_);
  return finish_;
}

std::shared_ptr<ActiveRequest> Activity::begin(std::string id, std::string path) {
  auto request = std::make_shared<ActiveRequest>(std::move(id), std::move(path));
  const std::lock_guard hold(mutex_);
  active_.emplace(n_begun_++, request);
  return request;
}

void Activity::end(const ActiveRequest& request) {
  const engine::Usage usage = request.usage();
  const std::lock_guard hold(mutex_);
  std::erase_if(active_, [&](const auto& entry) { return entry.second.get() == &request; });
  if (usage.completion_tokens == 0) return;
  ended_.push_back({.number = ++n_ended_, .path = request.path(), .finish = request.finish(), .usage = usage});
  if (ended_.size() > kShownRequests) ended_.pop_front();
}

bool Activity::cancel(std::string_view id) {
  std::shared_ptr<ActiveRequest> request;
  {
    const std::lock_guard hold(mutex_);
    const auto found = std::ranges::find_if(active_, [&](const auto& entry) { return entry.second->id() == id; });
    if (found == active_.end()) return false;
    request = found->second;
  }
  request->cancel();
  return true;
}

std::vector<std::shared_ptr<const ActiveRequest>> Activity::active() const {
  const std::lock_guard hold(mutex_);
  std::vector<std::shared_ptr<const ActiveRequest>> requests;
  for (const auto& [order, request] : active_) requests.push_back(request);
  return requests;
}

std::vector<EndedRequest> Activity::ended() const {
  const std::lock_guard hold(mutex_);
  return {ended_.begin(), ended_.end()};
}

}  // namespace tempo9::server
