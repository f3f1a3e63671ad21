// What parsers write to: makes events, with the rules for white space between the parts of an answer (spec tool-calling
// section 1, rule 6).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/tools/answer_event.h"

namespace tempo9::chat::tools {

class AnswerSink {
 public:
  AnswerSink() = default;
  // `continues_content`: the prompt ends inside content, so that white space at the beginning is a part of it.
  explicit AnswerSink(bool continues_content) : has_content_(continues_content), in_message_(continues_content) {}

  // Reasoning is trimmed; blocks are joined by a blank line.
  void reasoning(std::string_view text);
  void end_reasoning();

  // `source_begin` is where `text` stands in the model's text. Dropped is white space before the first content, before
  // a call, between calls and after the last one.
  void content(std::string_view text, size_t source_begin);
  // What follows is another message of the same answer: joined by a blank line.
  void end_message();

  // REQUIRES: calls do not overlap.
  void begin_call(std::string_view name);
  void arguments(std::string_view json);
  void end_call(bool is_complete);

  // The answer has ended: white space at its end is kept if it follows content.
  void finish();

  int32_t n_calls() const { return n_calls_; }
  bool has_complete_call() const { return has_complete_call_; }
  bool has_content() const { return has_content_; }
  bool is_empty() const { return n_calls_ == 0 && !has_content_ && !has_reasoning_; }

  std::vector<AnswerEvent> take_events() { return std::exchange(events_, {}); }

 private:
  struct Piece {
    std::string text;
    size_t source_begin;
  };

  void emit(AnswerEvent::Kind kind, std::string_view text, int32_t call = -1);
  void emit_content(std::string_view text, size_t source_begin);
  void hold(std::string_view text, size_t source_begin);
  void release_held();

  std::vector<AnswerEvent> events_;
  bool has_reasoning_ = false;
  bool in_reasoning_ = false;  // a block that has text
  std::string held_reasoning_;
  bool has_content_ = false;
  bool in_message_ = false;     // content since the last end_message
  bool is_after_call_ = false;  // no content since the last call
  std::vector<Piece> held_;     // white space at the end of the content so far
  int32_t n_calls_ = 0;
  bool has_complete_call_ = false;
};

}  // namespace tempo9::chat::tools
