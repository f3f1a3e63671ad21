#include "server/answer_reader.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/json.h"

namespace tempo9::server {

using chat::tools::AnswerEvent;

bool ContentStops::add(AnswerEvent event, std::vector<AnswerEvent>& out) {
  if (event.kind == AnswerEvent::Kind::kReasoning) {
    out.push_back(std::move(event));
    return false;
  }
  if (event.kind != AnswerEvent::Kind::kContent) {
    release(out);
    out.push_back(std::move(event));
    return false;
  }
  size_t n_stop = 0;
  for (size_t i = 0; i < event.text.size() && n_stop == 0; ++i) {
    n_stop = matcher_.feed(event.text[i]);
    if (n_stop > 0) event.text.resize(i + 1);
  }
  n_held_ += event.text.size();
  held_.push_back(std::move(event));
  if (n_stop == 0) {
    release_all_but(matcher_.n_partial(), out);
    return false;
  }
  release_all_but(n_stop, out);
  for (const AnswerEvent& piece : held_) found_ += piece.text;
  return true;
}

void ContentStops::release(std::vector<AnswerEvent>& out) {
  release_all_but(0, out);
  matcher_ = engine::StopMatcher(stops_);
}

void ContentStops::release_all_but(size_t n_bytes, std::vector<AnswerEvent>& out) {
  while (n_held_ > n_bytes) {
    AnswerEvent& front = held_.front();
    const size_t n = std::min(front.text.size(), n_held_ - n_bytes);
    n_held_ -= n;
    if (n == front.text.size()) {
      out.push_back(std::move(front));
      held_.pop_front();
      continue;
    }
    AnswerEvent part = front;
    part.text.resize(n);
    front.text.erase(0, n);
    if (front.source_begin != AnswerEvent::kNoSource) front.source_begin += n;
    out.push_back(std::move(part));
  }
}

void ContentLogprobs::add(engine::TokenInfo info) {
  const size_t begin = n_joined_;
  std::string text;
  joiner_.feed(info.bytes, text);
  n_joined_ += text.size();
  // A token that ends inside a character belongs to that character.
  pending_.push_back({.info = std::move(info), .begin = begin, .end = n_joined_ + (joiner_.holds_bytes() ? 1 : 0)});
}

void ContentLogprobs::take(const AnswerEvent& event, std::vector<engine::TokenInfo>& out) {
  if (event.kind == AnswerEvent::Kind::kContent && event.source_begin == AnswerEvent::kNoSource) return;
  if (event.kind != AnswerEvent::Kind::kContent) {
    while (!pending_.empty() && pending_.front().kept_end > 0) {
      release(std::move(pending_.front()), out);
      pending_.pop_front();
    }
    return;
  }
  const size_t end = event.source_begin + event.text.size();
  for (Pending& pending : pending_) {
    if (pending.begin >= end) break;
    if (pending.end <= event.source_begin) continue;
    if (pending.kept_end == 0) pending.kept_begin = std::max(pending.begin, event.source_begin);
    pending.kept_end = std::min(pending.end, end);
  }
  while (!pending_.empty() && pending_.front().end <= end) {
    release(std::move(pending_.front()), out);
    pending_.pop_front();
  }
}

void ContentLogprobs::finish(std::vector<engine::TokenInfo>& out) {
  for (Pending& pending : std::exchange(pending_, {})) release(std::move(pending), out);
}

void ContentLogprobs::release(Pending pending, std::vector<engine::TokenInfo>& out) {
  if (pending.kept_end <= pending.kept_begin) return;
  std::string& bytes = pending.info.bytes;
  const bool is_whole_text = bytes.size() == pending.end - pending.begin;
  if (is_whole_text) {
    bytes = bytes.substr(pending.kept_begin - pending.begin, pending.kept_end - pending.kept_begin);
  }
  out.push_back(std::move(pending.info));
}

AnswerReader::AnswerReader(AnswerOptions options)
    : stops_(std::move(options.stop)), hides_reasoning_(options.hide_reasoning), log_as_(std::move(options.log_as)) {
  if (options.dialect) parser_.emplace(*options.dialect, std::move(options.parser));
}

AnswerUpdate AnswerReader::read(const engine::Event& event) {
  AnswerUpdate update;
  if (!is_over_) read_text(event, update);
  if (event.error && !is_over_) {
    update.error = event.error;
  } else if (event.error || event.finish) {
    const auto reason = is_over_ ? engine::FinishReason::kStop : *event.finish;
    if (!is_over_) end_text(reason, update);
    update.finish = finish(reason);
    if (!log_as_.empty()) spdlog::info("event=answer_text request={} text={}", log_as_, dump_json(logged_text_));
  }
  update.usage = {.engine = event.usage, .reasoning_tokens = n_reasoning_};
  // The engine may have been a step further when it was told that the answer is over.
  if (is_over_) update.usage.engine.completion_tokens = n_tokens_;
  return update;
}

void AnswerReader::read_text(const engine::Event& event, AnswerUpdate& update) {
  n_tokens_ += static_cast<int64_t>(event.tokens.size());
  update.tokens = event.tokens;
  if (!log_as_.empty()) logged_text_ += event.text;
  for (const engine::TokenInfo& info : event.logprobs) logprobs_.add(info);
  if (!parser_) {
    std::vector<AnswerEvent> events;
    if (!event.text.empty()) {
      events.push_back({.kind = AnswerEvent::Kind::kContent, .text = event.text, .source_begin = n_text_});
    }
    n_text_ += event.text.size();
    return pass(std::move(events), update);
  }
  const bool was_in_reasoning = parser_->is_in_reasoning();
  std::vector<AnswerEvent> events = parser_->feed(event.text);
  if (was_in_reasoning || parser_->is_in_reasoning()) n_reasoning_ += static_cast<int64_t>(event.tokens.size());
  pass(std::move(events), update);
  if (parser_->is_over() && !is_over_) end_text(engine::FinishReason::kStop, update);
}

void AnswerReader::pass(std::vector<AnswerEvent> events, AnswerUpdate& update) {
  std::vector<AnswerEvent> visible;
  for (AnswerEvent& event : events) {
    if (is_over_) break;
    if (event.kind == AnswerEvent::Kind::kReasoning && hides_reasoning_) continue;
    has_calls_ = has_calls_ || event.kind == AnswerEvent::Kind::kCallBegin;
    is_over_ = stops_.add(std::move(event), visible);
  }
  for (AnswerEvent& event : visible) {
    logprobs_.take(event, update.logprobs);
    update.events.push_back(std::move(event));
  }
  if (is_over_) logprobs_.finish(update.logprobs);
}

// The model's text has ended, or what follows is not part of the answer.
void AnswerReader::end_text(engine::FinishReason reason, AnswerUpdate& update) {
  using chat::tools::EndReason;
  const auto end = reason == engine::FinishReason::kLength ? EndReason::kLength : EndReason::kStop;
  const bool ended_itself = parser_ && parser_->is_over();
  if (parser_) pass(parser_->finish(end), update);
  if (!is_over_) {
    std::vector<AnswerEvent> held;
    stops_.release(held);
    for (AnswerEvent& event : held) {
      logprobs_.take(event, update.logprobs);
      update.events.push_back(std::move(event));
    }
    logprobs_.finish(update.logprobs);
  }
  is_over_ = is_over_ || ended_itself;
}

Finish AnswerReader::finish(engine::FinishReason reason) const {
  if (!stops_.found().empty()) return {.reason = FinishReason::kStopString, .stop_string = stops_.found()};
  if (reason == engine::FinishReason::kLength) return {.reason = FinishReason::kLength, .stop_string = {}};
  return {.reason = has_calls_ ? FinishReason::kToolCalls : FinishReason::kEnd, .stop_string = {}};
}

}  // namespace tempo9::server
