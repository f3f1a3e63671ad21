// What a model's answer consists of, whichever dialect it was written in and whichever API will carry it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tempo9::chat::tools {

// A piece of an answer, in order. Joined over an answer, the texts of one kind (of one call) are the whole; how they
// are cut says nothing. Calls follow each other: begin, arguments, end, then the next. Ids are the API's business.
struct AnswerEvent {
  enum class Kind : uint8_t { kReasoning, kContent, kCallBegin, kCallArguments, kCallEnd };
  static constexpr size_t kNoSource = SIZE_MAX;

  Kind kind = Kind::kContent;
  // The delta. For kCallBegin the tool's name: the declared one, or as written when nothing declared fits. Arguments
  // are JSON text.
  std::string text;
  int32_t call = -1;  // of call events: 0 for the first call of the answer
  // Of kCallEnd: false when the model's text broke off inside the call; its arguments are then not whole.
  bool is_complete = true;
  // Of kContent: where in the model's text it stands; kNoSource for the blank line that joins two messages.
  size_t source_begin = kNoSource;
};

}  // namespace tempo9::chat::tools
