// What a client asked for, whichever API it spoke.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/message.h"
#include "engine/request.h"

namespace tempo9::server {

// Sampling as far as the client said; what it left out is filled from the model file, then from the dialect.
struct SamplingFields {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<int64_t> repeat_last_n;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<int64_t> seed;
  std::vector<std::pair<int32_t, float>> logit_bias;
};

// A JSON Schema that the answer's content is held to.
struct OutputSchema {
  chat::Json schema;
  bool is_strict = false;  // objects are closed, and a keyword that cannot be enforced is an error
};

struct ChatRequest {
  std::string model;  // the name to answer with
  bool stream = false;
  bool include_usage = false;
  chat::Conversation conversation;
  SamplingFields sampling;
  std::optional<int64_t> max_tokens;  // absent: to the end of the context
  std::vector<std::string> stop;
  bool parallel_tool_calls = true;   // false: the answer ends after its first call
  bool hide_reasoning = false;       // switched off, or not wanted: it is left out of the answer
  bool omit_reasoning_text = false;  // the answer says that there was reasoning, and not what
  bool requires_call = false;        // the answer is tool calls
  std::string forced_tool;           // with requires_call: of this tool only; empty: of any
  std::optional<OutputSchema> output_schema;
  bool logprobs = false;
  int32_t top_logprobs = 0;
  bool debug_cache = false;  // the usage also says where the prompt left what is kept, and why
};

}  // namespace tempo9::server
