// One step of an answer, as every API dialect writes it: no dialect looks at model text or at the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/tools/answer_event.h"
#include "engine/request.h"

namespace tempo9::server {

enum class FinishReason : uint8_t {
  kEnd,         // the model ended its answer
  kStopString,  // a stop string did; it is not part of the text
  kToolCalls,   // the model ended its answer, which calls tools
  kLength,      // the token limit, or the end of the context, did
};

struct Finish {
  FinishReason reason = FinishReason::kEnd;
  std::string stop_string;  // of kStopString
};

struct AnswerUsage {
  engine::Usage engine;
  int64_t reasoning_tokens = 0;  // part of completion_tokens
};

struct AnswerUpdate {
  // Which of the answers this belongs to, where a request asks for several: prompt by prompt, choice by choice.
  int32_t choice = 0;
  // Reasoning, content and calls, in order; chat/tools/answer_event.h. Content never holds a stop string.
  std::vector<chat::tools::AnswerEvent> events;
  std::vector<int32_t> tokens;  // sampled since the last update
  // Of the tokens whose text became content with this update. Their bytes join to the content.
  std::vector<engine::TokenInfo> logprobs;
  // Set on the last update, and only there.
  std::optional<Finish> finish;
  std::optional<Error> error;  // instead of finish when the request failed
  AnswerUsage usage;           // complete on the last update
};

}  // namespace tempo9::server
