#include "engine/sampler/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sampler/random.h"

namespace tempo9::engine {
namespace {

// Index of the largest logit, the lowest among equals.
Result<int32_t> find_best(std::span<const float> logits) {
  float largest = -INFINITY;
  int32_t best = -1;
  bool all_usable = true;
  for (size_t id = 0; id < logits.size(); ++id) {
    all_usable &= logits[id] <= std::numeric_limits<float>::max();  // false for NaN too
    if (logits[id] > largest) {
      largest = logits[id];
      best = static_cast<int32_t>(id);
    }
  }
  if (!all_usable) return fail(ErrorCode::kInternal, "the model computed a logit that is not a number");
  if (best < 0) return fail(ErrorCode::kInternal, "every token has probability 0");
  return best;
}

// REQUIRES: the mask is of as many tokens.
void keep_allowed(std::span<float> logits, const grammar::TokenMask& allowed) {
  const std::span<const uint64_t> words = allowed.words();
  for (size_t begin = 0, i = 0; begin < logits.size(); begin += 64, ++i) {
    const std::span<float> block = logits.subspan(begin, std::min<size_t>(64, logits.size() - begin));
    if (words[i] == 0) {
      std::ranges::fill(block, -INFINITY);
    } else if (words[i] != ~uint64_t{0}) {
      for (size_t bit = 0; bit < block.size(); ++bit) {
        if ((words[i] >> bit & 1) == 0) block[bit] = -INFINITY;
      }
    }
  }
}

double log_sum_exp(std::span<const float> logits, float largest) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest));
  return static_cast<double>(largest) + std::log(sum);
}

float to_logprob(float logit, double normalizer) { return static_cast<float>(static_cast<double>(logit) - normalizer); }

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int32_t n, double normalizer,
                                       std::vector<Candidate>& scratch) {
  select_top(logits, n, scratch);
  std::vector<TokenLogprob> top;
  for (const Candidate& candidate : scratch) {
    top.push_back({.token = candidate.id, .logprob = to_logprob(candidate.logit, normalizer)});
  }
  return top;
}

}  // namespace

Result<int32_t> Sampler::mask(std::span<float>& logits) const {
  logits = logits.first(std::min(logits.size(), static_cast<size_t>(options_.mask.n_tokens)));
  for (const int32_t id : options_.mask.suppressed) {
    if (static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = -INFINITY;
  }
  return find_best(logits);
}

Result<int32_t> Sampler::pick(std::span<float> logits, int32_t raw_best, std::span<const int32_t> tokens,
                              const grammar::TokenMask* allowed, SamplerScratch& scratch) {
  if (allowed) keep_allowed(logits, *allowed);
  change_logits(logits, tokens, scratch);
  int32_t best = raw_best;
  if (allowed || !unchanged_.empty()) {
    T9_TRY(changed_best, find_best(logits));
    best = changed_best;
  }
  return choose(logits, best, tokens.size(), scratch);
}

Result<Sampled> Sampler::sample(std::span<float> logits, std::span<const int32_t> tokens,
                                const grammar::TokenMask* allowed, SamplerScratch& scratch) {
  T9_TRY(raw_best, mask(logits));
  Sampled sampled;
  double normalizer = 0.0;
  if (options_.logprobs) {
    normalizer = log_sum_exp(logits, logits[static_cast<size_t>(raw_best)]);
    sampled.info.top = top_logprobs(logits, options_.top_logprobs, normalizer, scratch.candidates);
  }
  T9_TRY(token, pick(logits, raw_best, tokens, allowed, scratch));
  sampled.token = token;
  if (options_.logprobs) {
    const auto raw = unchanged_.find(token);
    const float logit = raw != unchanged_.end() ? raw->second : logits[static_cast<size_t>(token)];
    sampled.info.chosen = {.token = token, .logprob = to_logprob(logit, normalizer)};
  }
  return sampled;
}

Result<int32_t> Sampler::guess(std::span<float> logits, std::span<const int32_t> tokens,
                               const grammar::TokenMask* allowed, SamplerScratch& scratch) {
  T9_TRY(raw_best, mask(logits));
  return pick(logits, raw_best, tokens, allowed, scratch);
}

void Sampler::accept(int32_t token) {
  if (options_.params.presence_penalty != 0.0f || options_.params.frequency_penalty != 0.0f) ++counts_[token];
}

void Sampler::change(float& logit, int32_t id, float value) {
  if (logit == -INFINITY) return;
  unchanged_.try_emplace(id, logit);
  // Large biases must not make a logit infinite: that would read as a fault of the model.
  logit = std::clamp(value, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
}

void Sampler::change_logits(std::span<float> logits, std::span<const int32_t> tokens, SamplerScratch& scratch) {
  const SamplingParams& params = options_.params;
  unchanged_.clear();
  const auto logit_of = [&](int32_t id) -> float* {
    return static_cast<size_t>(id) < logits.size() ? &logits[static_cast<size_t>(id)] : nullptr;
  };
  for (const auto& [id, bias] : params.logit_bias) {
    if (float* logit = logit_of(id)) change(*logit, id, *logit + bias);
  }
  if (params.repetition_penalty != 1.0f) {
    const size_t window =
        params.repeat_last_n < 0 ? tokens.size() : std::min(tokens.size(), static_cast<size_t>(params.repeat_last_n));
    scratch.ids.assign(tokens.end() - static_cast<std::ptrdiff_t>(window), tokens.end());
    std::ranges::sort(scratch.ids);
    const auto repeats = std::ranges::unique(scratch.ids);
    scratch.ids.erase(repeats.begin(), repeats.end());
    for (const int32_t id : scratch.ids) {
      float* logit = logit_of(id);
      if (!logit) continue;
      change(*logit, id, *logit > 0.0f ? *logit / params.repetition_penalty : *logit * params.repetition_penalty);
    }
  }
  for (const auto& [id, count] : counts_) {
    float* logit = logit_of(id);
    if (!logit) continue;
    change(*logit, id, *logit - params.presence_penalty - static_cast<float>(count) * params.frequency_penalty);
  }
}

int32_t Sampler::choose(std::span<const float> logits, int32_t best, size_t position, SamplerScratch& scratch) const {
  const SamplingParams& params = options_.params;
  if (params.temperature <= 0.0f) return best;
  std::vector<Candidate>& candidates = scratch.candidates;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size()) {
    select_top(logits, params.top_k, candidates);
  } else {
    select_all(logits, candidates);
  }
  set_weights(candidates, params.temperature);
  if (params.top_p < 1.0f) keep_top_p(candidates, static_cast<double>(params.top_p), scratch.copy);
  if (params.min_p > 0.0f) keep_min_p(candidates, params.min_p);
  return draw(candidates, uniform_at(options_.seed, position));
}

}  // namespace tempo9::engine
