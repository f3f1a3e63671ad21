// From the engine's events to the neutral answer: reasoning, content and tool calls are told apart, stop strings found
// in what is visible, and log-probabilities kept with their content.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "chat/tools/dialect.h"
#include "engine/output.h"
#include "engine/request.h"
#include "server/answer_update.h"

namespace tempo9::server {

// How the answer of a request is to be read.
struct AnswerOptions {
  const chat::tools::Dialect* dialect = nullptr;  // null: all text is content, and the engine looks for stop strings
  chat::tools::ParserOptions parser;
  std::vector<std::string> stop;  // matched in content only
  bool hide_reasoning = false;
  std::string log_as;  // the model's text is logged whole under this request id; empty: it is not
};

// Ends the content where a stop string begins. Content that may be the beginning of one is held back.
class ContentStops {
 public:
  explicit ContentStops(std::vector<std::string> stops) : stops_(std::move(stops)), matcher_(stops_) {}

  // Moves `event` to `out`, as far as it is certain. True when a stop string is complete: nothing follows.
  bool add(chat::tools::AnswerEvent event, std::vector<chat::tools::AnswerEvent>& out);
  // The content has ended, or something else comes: what is held back is content.
  void release(std::vector<chat::tools::AnswerEvent>& out);
  const std::string& found() const { return found_; }

 private:
  void release_all_but(size_t n_bytes, std::vector<chat::tools::AnswerEvent>& out);

  std::vector<std::string> stops_;
  engine::StopMatcher matcher_;
  std::deque<chat::tools::AnswerEvent> held_;
  size_t n_held_ = 0;  // bytes in held_
  std::string found_;
};

// Keeps the log-probabilities of tokens until it is known whether their text is content.
class ContentLogprobs {
 public:
  // In the order of the text.
  void add(engine::TokenInfo info);
  // Appends the entries whose fate is certain after `event`: those of its content, cut to it.
  void take(const chat::tools::AnswerEvent& event, std::vector<engine::TokenInfo>& out);
  // No more content follows what was taken.
  void finish(std::vector<engine::TokenInfo>& out);

 private:
  struct Pending {
    engine::TokenInfo info;
    size_t begin;  // in the model's text
    size_t end;
    size_t kept_begin = 0;  // the part that became content; empty so far when equal to kept_end
    size_t kept_end = 0;
  };

  static void release(Pending pending, std::vector<engine::TokenInfo>& out);

  Utf8Joiner joiner_;
  size_t n_joined_ = 0;
  std::deque<Pending> pending_;
};

// One per answer; not thread-safe.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerOptions options);

  // Events come in order; after the last one none. Once is_over(), text is ignored and the last event, also one that
  // says that the stream was cancelled, gives the finish.
  AnswerUpdate read(const engine::Event& event);
  // What the model writes from here on is not part of the answer: its stream is to be ended.
  bool is_over() const { return is_over_; }

 private:
  void read_text(const engine::Event& event, AnswerUpdate& update);
  void pass(std::vector<chat::tools::AnswerEvent> events, AnswerUpdate& update);
  void end_text(engine::FinishReason reason, AnswerUpdate& update);
  Finish finish(engine::FinishReason reason) const;

  std::optional<chat::tools::AnswerParser> parser_;  // none: all text is content
  ContentStops stops_;
  ContentLogprobs logprobs_;
  const bool hides_reasoning_;
  const std::string log_as_;
  std::string logged_text_;
  bool is_over_ = false;
  bool has_calls_ = false;
  size_t n_text_ = 0;     // bytes of the model's text so far
  int64_t n_tokens_ = 0;  // up to the end of the answer
  int64_t n_reasoning_ = 0;
};

}  // namespace tempo9::server
