#include "chat/tools/answer_sink.h"

#include "chat/tools/json_strings.h"

namespace tempo9::chat::tools {
namespace {

constexpr std::string_view kBlankLine = "\n\n";

// Where the white space at the end of `text` begins.
size_t trailing_space(std::string_view text) {
  size_t n = text.size();
  while (n > 0 && is_json_space(text[n - 1])) --n;
  return n;
}

}  // namespace

void AnswerSink::emit(AnswerEvent::Kind kind, std::string_view text, int32_t call) {
  if (text.empty()) return;
  if (!events_.empty() && events_.back().kind == kind && events_.back().call == call) {
    events_.back().text += text;
  } else {
    events_.push_back({.kind = kind, .text = std::string(text), .call = call});
  }
}

void AnswerSink::emit_content(std::string_view text, size_t source_begin) {
  if (text.empty()) return;
  if (!events_.empty()) {
    AnswerEvent& last = events_.back();
    const bool is_next = last.kind == AnswerEvent::Kind::kContent && last.source_begin != AnswerEvent::kNoSource &&
                         last.source_begin + last.text.size() == source_begin;
    if (is_next) {
      last.text += text;
      return;
    }
  }
  events_.push_back({.kind = AnswerEvent::Kind::kContent, .text = std::string(text), .source_begin = source_begin});
}

void AnswerSink::reasoning(std::string_view text) {
  while (!in_reasoning_ && !text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  const size_t n_visible = trailing_space(text);
  if (n_visible > 0) {
    if (!in_reasoning_ && has_reasoning_) emit(AnswerEvent::Kind::kReasoning, kBlankLine);
    in_reasoning_ = has_reasoning_ = true;
    emit(AnswerEvent::Kind::kReasoning, std::exchange(held_reasoning_, {}));
    emit(AnswerEvent::Kind::kReasoning, text.substr(0, n_visible));
  }
  if (in_reasoning_) held_reasoning_ += text.substr(n_visible);
}

void AnswerSink::end_reasoning() {
  in_reasoning_ = false;
  held_reasoning_.clear();
}

void AnswerSink::hold(std::string_view text, size_t source_begin) {
  if (!text.empty()) held_.push_back({std::string(text), source_begin});
}

void AnswerSink::release_held() {
  for (const Piece& piece : std::exchange(held_, {})) emit_content(piece.text, piece.source_begin);
}

void AnswerSink::content(std::string_view text, size_t source_begin) {
  const size_t n_visible = trailing_space(text);
  if (n_visible == 0) return hold(text, source_begin);
  size_t begin = 0;
  if (!has_content_ || !in_message_) {
    held_.clear();
    while (is_json_space(text[begin])) ++begin;
    if (has_content_) emit_content(kBlankLine, AnswerEvent::kNoSource);
  }
  has_content_ = in_message_ = true;
  is_after_call_ = false;
  release_held();
  emit_content(text.substr(begin, n_visible - begin), source_begin + begin);
  hold(text.substr(n_visible), source_begin + n_visible);
}

void AnswerSink::end_message() {
  if (!in_message_) return;
  in_message_ = false;
  held_.clear();
}

void AnswerSink::begin_call(std::string_view name) {
  held_.clear();
  is_after_call_ = true;
  events_.push_back({.kind = AnswerEvent::Kind::kCallBegin, .text = std::string(name), .call = n_calls_++});
}

void AnswerSink::arguments(std::string_view json) { emit(AnswerEvent::Kind::kCallArguments, json, n_calls_ - 1); }

void AnswerSink::end_call(bool is_complete) {
  has_complete_call_ = has_complete_call_ || is_complete;
  events_.push_back(
      {.kind = AnswerEvent::Kind::kCallEnd, .text = {}, .call = n_calls_ - 1, .is_complete = is_complete});
}

void AnswerSink::finish() {
  if (has_content_ && in_message_ && !is_after_call_) release_held();
  held_.clear();
}

}  // namespace tempo9::chat::tools
