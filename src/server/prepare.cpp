#include "server/prepare.h"

#include <fmt/format.h>

#include "server/limits.h"

namespace tempo9::server {

namespace {

// Later sources fill what earlier ones leave out: request, model file, dialect.
engine::SamplingParams resolve_sampling(const SamplingFields& asked, const SamplingDefaults& of_model) {
  const engine::SamplingParams neutral;
  engine::SamplingParams params;
  params.temperature =
      static_cast<float>(asked.temperature.value_or(of_model.temperature.value_or(neutral.temperature)));
  params.top_p = static_cast<float>(asked.top_p.value_or(of_model.top_p.value_or(neutral.top_p)));
  params.top_k = static_cast<int32_t>(asked.top_k.value_or(of_model.top_k.value_or(neutral.top_k)));
  params.min_p = static_cast<float>(asked.min_p.value_or(of_model.min_p.value_or(neutral.min_p)));
  params.repetition_penalty = static_cast<float>(
      asked.repetition_penalty.value_or(of_model.repetition_penalty.value_or(neutral.repetition_penalty)));
  params.repeat_last_n = static_cast<int32_t>(asked.repeat_last_n.value_or(neutral.repeat_last_n));
  params.presence_penalty = static_cast<float>(asked.presence_penalty.value_or(neutral.presence_penalty));
  params.frequency_penalty = static_cast<float>(asked.frequency_penalty.value_or(neutral.frequency_penalty));
  params.logit_bias = asked.logit_bias;
  if (asked.seed) params.seed = static_cast<uint64_t>(*asked.seed);
  // A nucleus of nothing is the most likely token alone.
  if (params.top_p <= 0.0f) {
    params.temperature = 0.0f;
    params.top_p = 1.0f;
  }
  return params;
}

Result<void> check_logit_bias(const SamplingFields& sampling, const tokenizer::Tokenizer& tokenizer) {
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (token < tokenizer.n_tokens()) continue;
    return fail(Error(ErrorCode::kInvalidInput,
                      fmt::format("Invalid value for 'logit_bias': token {} is not in the vocabulary of {} tokens.",
                                  token, tokenizer.n_tokens()))
                    .with_field(fmt::format("logit_bias.{}", token))
                    .with_reason("invalid_value"));
  }
  return {};
}

Result<std::vector<int32_t>> encode_prompt(const chat::Rendered& rendered, const tokenizer::Tokenizer& tokenizer,
                                           int64_t context_length, const std::function<bool()>& is_cancelled) {
  const tokenizer::EncodeOptions options{.parse_special = true,
                                         .special_allowed = rendered.trusted,
                                         .max_tokens = std::max(kMaxPromptTokens, context_length + 1),
                                         .is_cancelled = is_cancelled};
  auto encoded = tokenizer.encode(rendered.text, options);
  if (!encoded && encoded.error().overflow()) {
    const int64_t n_tokens = encoded.error().overflow()->n_tokens;
    return fail(Error(ErrorCode::kInvalidInput, "The prompt is too long.").with_overflow(n_tokens, context_length));
  }
  if (!encoded) return encoded;
  // Most templates write the BOS themselves.
  const std::optional<int32_t> bos = tokenizer.bos();
  if (tokenizer.adds_bos() && bos && (encoded->empty() || encoded->front() != *bos)) {
    encoded->insert(encoded->begin(), *bos);
  }
  return encoded;
}

}  // namespace

Result<engine::Request> prepare(const ChatRequest& request, const ServerContext& context, const Sender& sender,
                                const std::function<bool()>& is_cancelled) {
  T9_TRY_VOID(check_logit_bias(request.sampling, context.tokenizer));
  T9_TRY(rendered, context.chat_format.render(request.conversation));
  if (is_cancelled()) return fail(ErrorCode::kCancelled, "The client has gone.");
  const int64_t context_length = context.engine.context_length();
  T9_TRY(prompt, encode_prompt(rendered, context.tokenizer, context_length, is_cancelled));
  const auto n_tokens = static_cast<int64_t>(prompt.size());
  if (n_tokens >= context_length) {
    return fail(Error(ErrorCode::kInvalidInput, "The prompt is too long.").with_overflow(n_tokens, context_length));
  }
  return engine::Request{.id = sender.request_id,
                         .client = sender.client,
                         .prompt = std::move(prompt),
                         .max_tokens = request.max_tokens.value_or(0),
                         .sampling = resolve_sampling(request.sampling, context.sampling_defaults),
                         .stop = request.stop,
                         .logprobs = request.logprobs,
                         .top_logprobs = request.top_logprobs,
                         .ignore_end = false};
}

}  // namespace tempo9::server
