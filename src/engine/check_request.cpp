#include "engine/check_request.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/utf8.h"
#include "engine/limits.h"
#include "engine/prompt_images.h"

namespace tempo9::engine {
namespace {

std::unexpected<Error> invalid(std::string_view field, std::string message) {
  return fail(Error(ErrorCode::kInvalidInput, std::move(message)).with_field(std::string(field)));
}

Result<void> check_range(std::string_view field, float value, float low, float high) {
  if (value >= low && value <= high) return {};  // false for NaN
  return invalid(field, fmt::format("{} must be between {} and {}, not {}", field, low, high, value));
}

Result<void> check_token(std::string_view field, int32_t id, int64_t n_vocab) {
  if (id >= 0 && id < n_vocab) return {};
  return invalid(field, fmt::format("token id {} is not in the vocabulary of {}", id, n_vocab));
}

Result<void> check_prompt(const Request& request, int64_t context_length, int64_t n_vocab) {
  const int64_t n_prompt = static_cast<int64_t>(request.prompt.size());
  if (n_prompt == 0) return fail(ErrorCode::kInvalidInput, "the prompt has no tokens");
  if (n_prompt >= context_length) {
    return fail(Error(ErrorCode::kInvalidInput,
                      fmt::format("This model's maximum context length is {} tokens. However, your messages resulted "
                                  "in {} tokens.",
                                  context_length, n_prompt))
                    .with_reason("context_length_exceeded")
                    .with_overflow(n_prompt, context_length));
  }
  for (const int32_t id : request.prompt) T9_TRY_VOID(check_token("prompt", id, n_vocab));
  return {};
}

Result<void> check_sampling(const SamplingParams& params, int64_t n_vocab) {
  // Beyond any use, and far from where floats overflow.
  constexpr float kLarge = 1e6f;
  T9_TRY_VOID(check_range("temperature", params.temperature, 0.0f, kLarge));
  T9_TRY_VOID(check_range("top_p", params.top_p, 0.0f, 1.0f));
  T9_TRY_VOID(check_range("min_p", params.min_p, 0.0f, 1.0f));
  T9_TRY_VOID(check_range("repetition_penalty", params.repetition_penalty, 1.0f / kLarge, kLarge));
  T9_TRY_VOID(check_range("presence_penalty", params.presence_penalty, -kLarge, kLarge));
  T9_TRY_VOID(check_range("frequency_penalty", params.frequency_penalty, -kLarge, kLarge));
  if (params.repeat_last_n < -1) return invalid("repeat_last_n", "repeat_last_n must be -1 or more");
  for (const auto& [id, bias] : params.logit_bias) {
    T9_TRY_VOID(check_token("logit_bias", id, n_vocab));
    T9_TRY_VOID(check_range("logit_bias", bias, -kLarge, kLarge));
  }
  return {};
}

Result<void> check_stops(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStopStrings) {
    return invalid("stop", fmt::format("{} stop strings, the limit is {}", stops.size(), kMaxStopStrings));
  }
  for (const std::string& stop : stops) {
    if (!is_valid_utf8(stop)) return invalid("stop", "a stop string is not well-formed UTF-8");
  }
  return {};
}

Result<void> check_thought_limit(const ThoughtLimit& limit, int64_t n_vocab) {
  if (limit.end.empty()) return {};
  if (limit.max_tokens < 0) return invalid("thought_limit", "a thought must be allowed 0 tokens or more");
  if (limit.close.empty()) return invalid("thought_limit", "a thought needs a closing mark");
  if (!limit.is_open && limit.open.empty()) return invalid("thought_limit", "a thought needs an opening mark");
  for (const int32_t id : limit.end) T9_TRY_VOID(check_token("thought_limit", id, n_vocab));
  return {};
}

}  // namespace

Result<void> check_request(const Request& request, int64_t context_length, int64_t n_vocab, const ImageLimits& images) {
  T9_TRY_VOID(check_prompt(request, context_length, n_vocab));
  T9_TRY_VOID(check_images(request.images, std::ssize(request.prompt), images));
  T9_TRY_VOID(check_sampling(request.sampling, n_vocab));
  T9_TRY_VOID(check_stops(request.stop));
  T9_TRY_VOID(check_thought_limit(request.thought_limit, n_vocab));
  if (request.constraint.grammar && request.ignore_end) {
    return invalid("ignore_end", "an answer that a grammar holds ends where the grammar does");
  }
  if (request.max_tokens < 0) return invalid("max_tokens", "max_tokens must not be negative");
  if (request.top_logprobs < 0 || request.top_logprobs > kMaxTopLogprobs) {
    return invalid("top_logprobs",
                   fmt::format("top_logprobs must be between 0 and {}, not {}", kMaxTopLogprobs, request.top_logprobs));
  }
  return {};
}

}  // namespace tempo9::engine
