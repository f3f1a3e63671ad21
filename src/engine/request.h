// What the engine is asked to do, and what it answers with. Nothing here knows which API was spoken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"

namespace tempo9::engine {

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy; ties go to the lower id
  float top_p = 1.0f;
  int32_t top_k = 0;  // <= 0: off
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  int32_t repeat_last_n = 64;  // window of the repetition penalty; -1: everything
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::optional<uint64_t> seed;  // absent: a fresh one
};

// What the answer is held to. It then ends where the grammar says, and never before.
struct Constraint {
  std::shared_ptr<const grammar::Grammar> grammar;  // null: nothing
  // The grammar's text may be written with the request's shown_control too: for markup of tool calls and reasoning.
  bool allows_control = false;
};

// Ends a thought that gets too long (spec tool-calling 9): once it has max_tokens tokens and its last character is
// whole, `end` is written into the answer, whatever the model would write, as far as the constraint allows it.
struct ThoughtLimit {
  int64_t max_tokens = 0;
  bool is_open = false;  // the prompt has opened the thought; else the answer begins with `open`, or has none
  std::string open;
  std::string close;
  std::vector<int32_t> end;  // empty: there is no limit
};

// An image in a prompt: rows that stand in the place of height * width tokens, row after row (spec models 13).
struct PromptImage {
  int64_t begin = 0;  // of those tokens, whose ids do not matter
  int32_t height = 0;
  int32_t width = 0;
  // Columns: models::embedding_cols.
  std::shared_ptr<const std::vector<float>> rows;
  // Of whatever the rows come from: equal digests, equal rows. What the cache tells images apart by.
  std::string digest;
};

struct Request {
  std::string id;      // for logs
  std::string route;   // for logs: where it came in, which tells the API
  std::string client;  // connection it came from: queues are served round-robin over clients
  std::vector<int32_t> prompt;
  std::vector<PromptImage> images = {};  // in their order
  int64_t max_tokens = 0;                // 0: to the end of the context
  SamplingParams sampling;
  std::vector<std::string> stop;  // matched on the text; the match is not part of the answer
  Constraint constraint;
  ThoughtLimit thought_limit = {};
  bool logprobs = false;
  int32_t top_logprobs = 0;
  std::vector<int32_t> shown_control;  // control tokens whose text is part of the answer; few
  bool ignore_end = false;             // for benchmarks: end tokens do not end the answer
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // of the distribution before constraint, temperature, penalties and bias
};

// One token whose text an event releases. Only filled when the request asked for logprobs.
struct TokenInfo {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // may hold fewer than asked for: tokens of probability 0 have no logarithm
  std::string bytes;              // the token's part of the answer: cut where a stop string begins
};

enum class FinishReason : uint8_t { kStop, kLength };

// Counts what was computed for the request: tokens of a matched stop string are part of completion_tokens, the end
// token is not, so completion_tokens == max_tokens exactly when the answer ended for its length.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, not computed again
  int64_t common_tokens = 0;  // of the prompt, that the most similar kept text has too
  // Why the prompt's rest was computed: "-" (there was none), "new", "longer" (it goes on where a kept text ends),
  // "branch" (kept texts go on otherwise), "header" or "edit" (they differ near their beginning, or later, and are
  // alike again), "template" (they differ in a control token), "image" (it has another image there), "evicted", "state"
  // (no recurrent state was kept nearer).
  std::string_view uncached_because = "-";
  int64_t completion_tokens = 0;
  int64_t drafted_tokens = 0;   // guesses that steps have verified
  int64_t accepted_tokens = 0;  // of them, right
  double queue_ms = 0.0;        // submit to first row
  double prefill_ms = 0.0;      // first row to first token
  double decode_ms = 0.0;       // first token to last
  // Of the passes that it was part of, its share by rows; absent where the machine does not report energy.
  std::optional<double> energy_j;
};

// A piece of the answer, in order. Text is well-formed UTF-8 and never part of a stop string. Only the last event may
// have no text.
struct Event {
  std::string text;
  std::vector<int32_t> tokens;      // ids produced since the last event (the end token excluded)
  std::vector<TokenInfo> logprobs;  // tokens whose text this event releases
  // Set on the last event, and only there.
  std::optional<FinishReason> finish;
  std::optional<Error> error;  // instead of finish when the request failed
  Usage usage;                 // complete on the last event
};

}  // namespace tempo9::engine
