#include "server/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "chat/prompt_tokens.h"
#include "server/output_constraint.h"

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

Error does_not_fit(int64_t n_tokens, int64_t context_length) {
  return Error(ErrorCode::kInvalidInput, "The prompt is too long.").with_overflow(n_tokens, context_length);
}

Result<std::vector<int32_t>> encode(const chat::Rendered& rendered, const tokenizer::Tokenizer& tokenizer,
                                    int64_t context_length, const std::function<bool()>& is_cancelled) {
  tokenizer::EncodeOptions options;
  options.max_tokens = context_length;
  options.is_cancelled = is_cancelled;
  auto encoded = chat::encode_prompt(tokenizer, rendered, options);
  if (!encoded && encoded.error().overflow()) {
    return fail(does_not_fit(encoded.error().overflow()->n_tokens, context_length));
  }
  // One token of the context is the answer's at least.
  if (encoded && static_cast<int64_t>(encoded->size()) >= context_length) {
    return fail(does_not_fit(static_cast<int64_t>(encoded->size()), context_length));
  }
  return encoded;
}

// Whether the prompt has opened the reasoning, so that the answer begins inside it.
chat::tools::Start start_of_answer(std::string_view prompt, const chat::tools::Dialect& dialect) {
  const size_t end = prompt.find_last_not_of(" \t\r\n");
  const bool is_open = end != std::string_view::npos && !dialect.reasoning_opener.empty() &&
                       prompt.substr(0, end + 1).ends_with(dialect.reasoning_opener);
  return is_open ? chat::tools::Start::kInReasoning : chat::tools::Start::kMaybeReasoning;
}

AnswerOptions answer_options(const ChatRequest& request, const chat::tools::Dialect& dialect, std::string_view prompt) {
  return {.dialect = &dialect,
          .parser = {.tools = std::make_shared<const chat::tools::ToolSet>(request.conversation.tools),
                     .start = start_of_answer(prompt, dialect),
                     .parallel_calls = request.parallel_tool_calls},
          .stop = request.stop,
          .hide_reasoning = request.hide_reasoning};
}

}  // namespace

Result<Prepared> prepare(const ChatRequest& request, const App& app, const Sender& sender,
                         const std::function<bool()>& is_cancelled) {
  const ServerContext& context = app.context;
  T9_TRY_VOID(check_logit_bias(request.sampling, context.tokenizer));
  T9_TRY(rendered, context.chat_format.render(request.conversation));
  if (is_cancelled()) return fail(ErrorCode::kCancelled, "The client has gone.");
  T9_TRY(prompt, encode(rendered, context.tokenizer, context.engine.context_length(), is_cancelled));
  AnswerOptions answer = answer_options(request, context.chat_format.dialect(), rendered.text);
  T9_TRY(constraint, make_constraint(request, *answer.dialect, answer.parser.start, app.grammars));
  engine::Request engine_request{.id = sender.request_id,
                                 .client = sender.client,
                                 .prompt = std::move(prompt),
                                 .max_tokens = request.max_tokens.value_or(0),
                                 .sampling = resolve_sampling(request.sampling, context.sampling_defaults),
                                 .stop = {},
                                 .constraint = std::move(constraint),
                                 .logprobs = request.logprobs,
                                 .top_logprobs = request.top_logprobs,
                                 .shown_control = app.marker_tokens,
                                 .ignore_end = false};
  return Prepared{std::move(engine_request), std::move(answer)};
}

Result<int64_t> count_prompt_tokens(const ChatRequest& request, const ServerContext& context,
                                    const std::function<bool()>& is_cancelled) {
  T9_TRY(rendered, context.chat_format.render(request.conversation));
  tokenizer::EncodeOptions options;
  options.is_cancelled = is_cancelled;
  T9_TRY(prompt, chat::encode_prompt(context.tokenizer, rendered, options));
  return static_cast<int64_t>(prompt.size());
}

std::vector<int32_t> find_marker_tokens(const tokenizer::Tokenizer& tokenizer, const chat::tools::Dialect& dialect) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
    if (!tokenizer.piece(id).empty()) continue;
    const std::string_view text = tokenizer.token_text(id);
    if (std::ranges::find(dialect.markers, text) != dialect.markers.end()) ids.push_back(id);
  }
  return ids;
}

}  // namespace tempo9::server
