// What the answers of chat and text completions have in common. Spec api 3.4, 3.6, 8.2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer_update.h"
#include "server/chat_request.h"
#include "server/http/message.h"
#include "server/json.h"

namespace tempo9::server {

// The head of a stream, and its events.
http::Response openai_stream_head(std::string_view request_id);
std::string openai_event(const Json& data);
inline constexpr std::string_view kOpenAiDone = "data: [DONE]\n\n";

// What all objects of one answer begin with.
struct OpenAiEnvelope {
  std::string request_id;
  std::string id;
  int64_t created_s = 0;
  std::string model;
  bool debug_cache = false;  // usage also says where reuse of the prompt ended

  Json object(std::string_view type) const;
  Json usage(const AnswerUsage& usage) const;
};

// `id_prefix`: "chatcmpl-" or "cmpl-".
OpenAiEnvelope make_openai_envelope(const ChatRequest& request, std::string request_id, std::string_view id_prefix);

// The choices of one request: which of them are over, and what all of them cost.
class OpenAiChoices {
 public:
  // `n` to each prompt, prompt by prompt.
  OpenAiChoices(size_t n_prompts, int64_t n) : n_(n), n_open_(static_cast<int64_t>(n_prompts) * n) {}

  // Takes a choice's last update. True when it was the last choice.
  bool finish(const AnswerUpdate& last);
  // A prompt counts once, whatever its choices.
  const AnswerUsage& usage() const { return sum_; }

 private:
  int64_t n_;
  int64_t n_open_;
  AnswerUsage sum_;
};

// Prompts of a request: one, unless it brings several.
size_t n_prompts(const ChatRequest& request);

}  // namespace tempo9::server
