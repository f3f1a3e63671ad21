// What a client asked for, whichever API it spoke.
#pragma once

#include <cstdint>
#include <memory>
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
  bool is_strict = false;                 // objects are closed, and a keyword that cannot be enforced is an error
  std::string field = "response_format";  // where the client asked for it, for errors
};

// A prompt as the client wrote it. Control tokens that its text writes out are control tokens.
struct RawPrompt {
  std::vector<int32_t> ids;  // stand before the text
  std::string text;
};

// What an empty request of Ollama's API asks for. The model is always there, and stays: there is nothing to do.
enum class Residency : uint8_t { kNone, kLoad, kUnload };

// What a dialect's parser keeps for its writer; nothing else reads it.
struct DialectExtras {
  virtual ~DialectExtras() = default;
};

struct ChatRequest {
  std::string model;  // the name to answer with
  bool stream = false;
  bool include_usage = false;
  chat::Conversation conversation;
  std::vector<int32_t> context;  // ids that stand before the conversation's prompt
  bool drops_oldest = false;     // a conversation that does not fit loses its oldest messages; else it is refused
  // Not empty: these are asked in place of the conversation, and the answers are the model's text as it is.
  std::vector<RawPrompt> raw_prompts;
  Residency residency = Residency::kNone;  // not kNone: nothing is generated
  int64_t n_choices = 1;                   // answers to each prompt
  bool echoes_prompt = false;              // an answer to a raw prompt begins with it
  SamplingFields sampling;
  SamplingFields sampling_defaults;   // the dialect's own, where neither the client nor the model file says anything
  std::optional<int64_t> max_tokens;  // absent: to the end of the context
  std::vector<std::string> stop;
  bool parallel_tool_calls = true;              // false: the answer ends after its first call
  bool hide_reasoning = false;                  // switched off, or not wanted: it is left out of the answer
  std::optional<int64_t> max_reasoning_tokens;  // then the reasoning is cut off
  bool omit_reasoning_text = false;             // the answer says that there was reasoning, and not what
  bool requires_call = false;                   // the answer is tool calls
  std::string forced_tool;                      // with requires_call: of this tool only; empty: of any
  std::vector<std::string> allowed_tools;       // only these can be called; empty: any
  std::optional<OutputSchema> output_schema;
  bool logprobs = false;
  int32_t top_logprobs = 0;
  bool debug_cache = false;  // the usage also says where the prompt left what is kept, and why
  std::shared_ptr<const DialectExtras> extras;
};

}  // namespace tempo9::server
