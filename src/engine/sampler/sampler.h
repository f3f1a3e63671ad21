// Logits to a token, by a request's sampling parameters.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "engine/sampler/candidates.h"
#include "grammar/token_trie.h"

namespace tempo9::engine {

// What may be sampled at all: ids below `n_tokens` (a model's output matrix may be padded beyond the tokenizer) that
// are not suppressed.
struct SampleMask {
  int64_t n_tokens = 0;
  std::span<const int32_t> suppressed;
};

// Working memory, shared by the samplers of one thread.
struct SamplerScratch {
  std::vector<Candidate> candidates;
  std::vector<Candidate> copy;
  std::vector<int32_t> ids;
};

struct Sampled {
  int32_t token = 0;
  TokenInfo info;  // filled when log-probabilities were asked for
};

// One sequence's sampler. The order of rules: mask | log-probabilities are read here | the tokens that a grammar allows
// | logit bias, repetition, presence and frequency penalties | temperature | top_k | top_p | min_p | draw. Temperature
// 0 takes the best after the penalties. The repetition penalty looks at the last `repeat_last_n` tokens, prompt
// included; presence and frequency penalties look at the answer only.
class Sampler {
 public:
  struct Options {
    SamplingParams params;
    uint64_t seed = 0;
    bool logprobs = false;
    int32_t top_logprobs = 0;
    SampleMask mask;
  };

  explicit Sampler(Options options) : options_(std::move(options)) {}

  // The next token after `tokens` (prompt and answer so far), one of `allowed`, or any when that is null. Overwrites
  // `logits`.
  // Errors: kInternal when a logit is NaN or infinite, or no token may be sampled.
  Result<Sampled> sample(std::span<float> logits, std::span<const int32_t> tokens, const grammar::TokenMask* allowed,
                         SamplerScratch& scratch);
  // The token that sample() would give, and nothing else: for logits of a model that drafts. Presence and frequency
  // penalties know the tokens of accept() only.
  Result<int32_t> guess(std::span<float> logits, std::span<const int32_t> tokens, const grammar::TokenMask* allowed,
                        SamplerScratch& scratch);
  // Tells the sampler that `token` was appended to the answer.
  void accept(int32_t token);

 private:
  // Takes away what may never be sampled. Gives the logits that are left and the best of them.
  Result<int32_t> mask(std::span<float>& logits) const;
  Result<int32_t> pick(std::span<float> logits, int32_t raw_best, std::span<const int32_t> tokens,
                       const grammar::TokenMask* allowed, SamplerScratch& scratch);
  void change_logits(std::span<float> logits, std::span<const int32_t> tokens, SamplerScratch& scratch);
  void change(float& logit, int32_t id, float value);
  int32_t choose(std::span<const float> logits, int32_t best, size_t position, SamplerScratch& scratch) const;

  Options options_;
  std::unordered_map<int32_t, int32_t> counts_;   // of the answer's tokens, when a penalty needs them
  std::unordered_map<int32_t, float> unchanged_;  // logits before bias and penalties, of those that were changed
};

}  // namespace tempo9::engine
