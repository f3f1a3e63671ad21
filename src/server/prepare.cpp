#include "server/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "chat/images.h"
#include "chat/prompt_tokens.h"
#include "server/answer_syntax.h"
#include "server/output_constraint.h"
#include "server/truncation.h"

namespace tempo9::server {

namespace {

// Later sources fill what earlier ones leave out: request, model file, dialect, and what changes nothing.
template <class T, class... Sources>
T first_of(T neutral, const Sources&... sources) {
  std::optional<T> found;
  ((found = found || !sources ? found : std::optional<T>(static_cast<T>(*sources))), ...);
  return found.value_or(neutral);
}

engine::SamplingParams resolve_sampling(const SamplingFields& asked, const SamplingDefaults& of_model,
                                        const SamplingFields& of_dialect) {
  const engine::SamplingParams neutral;
  engine::SamplingParams params;
  params.temperature = first_of(neutral.temperature, asked.temperature, of_model.temperature, of_dialect.temperature);
  params.top_p = first_of(neutral.top_p, asked.top_p, of_model.top_p, of_dialect.top_p);
  params.top_k = first_of(neutral.top_k, asked.top_k, of_model.top_k, of_dialect.top_k);
  params.min_p = first_of(neutral.min_p, asked.min_p, of_model.min_p, of_dialect.min_p);
  params.repetition_penalty = first_of(neutral.repetition_penalty, asked.repetition_penalty,
                                       of_model.repetition_penalty, of_dialect.repetition_penalty);
  params.repeat_last_n = first_of(neutral.repeat_last_n, asked.repeat_last_n);
  params.presence_penalty = first_of(neutral.presence_penalty, asked.presence_penalty);
  params.frequency_penalty = first_of(neutral.frequency_penalty, asked.frequency_penalty);
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

// White space aside.
bool ends_with(std::string_view prompt, std::string_view text) {
  const size_t end = prompt.find_last_not_of(" \t\r\n");
  return end != std::string_view::npos && !text.empty() && prompt.substr(0, end + 1).ends_with(text);
}

// Whether the prompt has opened the reasoning, so that the answer begins inside it.
chat::tools::Start start_of_answer(std::string_view prompt, const chat::tools::Dialect& dialect) {
  const bool is_open = ends_with(prompt, dialect.reasoning_opener);
  return is_open ? chat::tools::Start::kInReasoning : chat::tools::Start::kMaybeReasoning;
}

AnswerOptions answer_options(const ChatRequest& request, const chat::tools::Dialect& dialect, std::string_view prompt) {
  return {.dialect = &dialect,
          .parser = {.tools = std::make_shared<const chat::tools::ToolSet>(request.conversation.tools),
                     .start = start_of_answer(prompt, dialect),
                     .parallel_calls = request.parallel_tool_calls,
                     .content_is_json = request.output_schema.has_value(),
                     .continues_content = request.conversation.continues_last},
          .stop = request.stop,
          .hide_reasoning = request.hide_reasoning};
}

// What ends the reasoning when it gets longer than the client allows.
Result<engine::ThoughtLimit> thought_limit(const ChatRequest& request, const AnswerBeginning& beginning,
                                           const tokenizer::Tokenizer& tokenizer) {
  const bool is_open = beginning.start == chat::tools::Start::kInReasoning;
  if (!request.max_reasoning_tokens || (!is_open && !beginning.may_reason)) return engine::ThoughtLimit{};
  T9_TRY(end, tokenizer.encode(beginning.dialect.reasoning_cut, {.parse_special = true}));
  const grammar::ReasoningSyntax marks = answer_syntax(beginning.dialect.name).reasoning;
  return engine::ThoughtLimit{.max_tokens = *request.max_reasoning_tokens,
                              .is_open = is_open,
                              .open = marks.open,
                              .close = marks.close,
                              .end = std::move(end)};
}

// A prompt, and what follows from it.
struct Prompt {
  std::vector<int32_t> ids;
  std::vector<engine::PromptImage> images;  // without their rows
  std::vector<vision::SeenImage> seen;      // the same images
  AnswerOptions answer;
  engine::Constraint constraint;
  engine::ThoughtLimit thought_limit;
};

// `begin` stands before the text, which then is not the beginning: without a BOS.
Result<std::vector<int32_t>> encode_behind(const std::vector<int32_t>& begin, const chat::Rendered& rendered,
                                           const tokenizer::Tokenizer& tokenizer, int64_t context_length,
                                           const std::function<bool()>& is_cancelled) {
  const auto n_begin = static_cast<int64_t>(begin.size());
  if (n_begin >= context_length) return fail(does_not_fit(n_begin, context_length));
  auto ids = encode(rendered, tokenizer, context_length - n_begin, is_cancelled);
  if (begin.empty()) return ids;
  if (!ids) {
    if (const auto& overflow = ids.error().overflow()) {
      return fail(does_not_fit(overflow->n_tokens + n_begin, context_length));
    }
    return ids;
  }
  if (!ids->empty() && ids->front() == tokenizer.bos()) ids->erase(ids->begin());
  ids->insert(ids->begin(), begin.begin(), begin.end());
  return ids;
}

// A rendered prompt whose images were looked at.
struct Shown {
  chat::Rendered rendered;
  std::vector<vision::SeenImage> seen;  // in the prompt's order
};

Result<std::vector<vision::SeenImage>> look_at(const std::vector<chat::ImagePart>& images, const ImageInput& input,
                                               const std::function<bool()>& is_cancelled) {
  std::vector<vision::SeenImage> seen;
  int64_t n_pixels = 0;
  for (const chat::ImagePart& image : images) {
    if (is_cancelled()) return fail(ErrorCode::kCancelled, "The client has gone.");
    auto looked = input.service.look_at(image.file);
    if (!looked) return fail(std::move(looked).error().with_field(image.field));
    n_pixels += looked->n_pixels;
    seen.push_back(*std::move(looked));
  }
  if (n_pixels > kMaxImagePixels) {
    return fail(Error(ErrorCode::kInvalidInput,
                      fmt::format("The images have {} pixels together, {} are allowed.", n_pixels, kMaxImagePixels))
                    .with_field(images.front().field)
                    .with_reason("invalid_image"));
  }
  return seen;
}

Result<Shown> render(const chat::Conversation& conversation, const ServerContext& context,
                     const std::function<bool()>& is_cancelled) {
  T9_TRY(rendered, context.chat_format.render(conversation));
  if (is_cancelled()) return fail(ErrorCode::kCancelled, "The client has gone.");
  const std::vector<chat::ImagePart> images = chat::shown_images(conversation);
  if (images.empty()) return Shown{.rendered = std::move(rendered), .seen = {}};
  T9_TRY(seen, look_at(images, *context.images, is_cancelled));
  T9_TRY(placed, chat::place_images(std::move(rendered), images, context.images->markup));
  Shown shown{.rendered = std::move(placed.rendered), .seen = {}};
  for (const size_t i : placed.order) shown.seen.push_back(seen[i]);
  return shown;
}

// Makes the images' rows of the single placeholders among `ids`; those before `first` are others'.
Result<std::vector<engine::PromptImage>> make_room_for_images(std::vector<int32_t>& ids, size_t first,
                                                              const std::vector<vision::SeenImage>& seen,
                                                              const ServerContext& context) {
  std::vector<engine::PromptImage> images;
  if (seen.empty()) return images;
  std::vector<int64_t> counts;
  for (const vision::SeenImage& image : seen) counts.push_back(image.grid.n_tokens());
  T9_TRY(begins, chat::expand_placeholders(ids, first, context.images->markup.placeholder_id, counts));
  for (size_t i = 0; i < seen.size(); ++i) {
    images.push_back({.begin = begins[i],
                      .height = seen[i].grid.height,
                      .width = seen[i].grid.width,
                      .rows = nullptr,
                      .digest = seen[i].digest});
  }
  return images;
}

Result<Prompt> prepare_conversation(const ChatRequest& request, const App& app, const Sender& sender,
                                    const std::function<bool()>& is_cancelled) {
  const ServerContext& context = app.context;
  struct Attempt {
    std::string text;
    std::vector<int32_t> ids;
    std::vector<engine::PromptImage> images;
    std::vector<vision::SeenImage> seen;
  };
  const auto attempt = [&](const chat::Conversation& conversation) -> Result<Attempt> {
    T9_TRY(shown, render(conversation, context, is_cancelled));
    const int64_t context_length = context.engine.context_length();
    T9_TRY(ids, encode_behind(request.context, shown.rendered, context.tokenizer, context_length, is_cancelled));
    T9_TRY(images, make_room_for_images(ids, request.context.size(), shown.seen, context));
    if (std::ssize(ids) >= context_length) return fail(does_not_fit(std::ssize(ids), context_length));
    return Attempt{std::move(shown.rendered.text), std::move(ids), std::move(images), std::move(shown.seen)};
  };
  auto made = attempt(request.conversation);
  if (!made && made.error().overflow() && request.drops_oldest) {
    made = first_that_fits(request.conversation, sender.request_id, attempt, std::move(made));
  }
  if (!made) return std::unexpected(std::move(made).error());
  AnswerOptions answer = answer_options(request, context.chat_format.dialect(), made->text);
  if (context.logs_text) answer.log_as = sender.request_id;
  const AnswerBeginning beginning{
      .dialect = *answer.dialect,
      .start = answer.parser.start,
      .may_reason = context.chat_format.has_reasoning() && !ends_with(made->text, answer.dialect->reasoning_close)};
  T9_TRY(constraint, make_constraint(request, beginning, app.grammars));
  T9_TRY(limit, thought_limit(request, beginning, context.tokenizer));
  return Prompt{std::move(made->ids), std::move(made->images), std::move(made->seen),
                std::move(answer),    std::move(constraint),   std::move(limit)};
}

// The model's text is the answer as it is: nothing is read out of it.
Result<Prompt> prepare_raw(const ChatRequest& request, const RawPrompt& raw, const App& app,
                           const std::function<bool()>& is_cancelled) {
  chat::Rendered rendered{.text = raw.text, .trusted = {}};
  if (!raw.text.empty()) rendered.trusted.push_back({0, raw.text.size()});
  const ServerContext& context = app.context;
  T9_TRY(ids, encode_behind(raw.ids, rendered, context.tokenizer, context.engine.context_length(), is_cancelled));
  const AnswerBeginning beginning{.dialect = *chat::tools::find_dialect("generic")};
  T9_TRY(constraint, make_constraint(request, beginning, app.grammars));
  return Prompt{std::move(ids), {}, {}, {}, std::move(constraint), {}};
}

Result<std::vector<Prompt>> prepare_prompts(const ChatRequest& request, const App& app, const Sender& sender,
                                            const std::function<bool()>& is_cancelled) {
  std::vector<Prompt> prompts;
  for (const RawPrompt& raw : request.raw_prompts) {
    T9_TRY(prompt, prepare_raw(request, raw, app, is_cancelled));
    prompts.push_back(std::move(prompt));
  }
  if (!prompts.empty()) return prompts;
  T9_TRY(prompt, prepare_conversation(request, app, sender, is_cancelled));
  prompts.push_back(std::move(prompt));
  return prompts;
}

Prepared finish(const ChatRequest& request, const Prompt& prompt, int64_t choice, const App& app,
                const Sender& sender) {
  engine::SamplingParams sampling =
      resolve_sampling(request.sampling, app.context.sampling_defaults, request.sampling_defaults);
  // Of one seed, every choice has its own numbers.
  if (sampling.seed) *sampling.seed += static_cast<uint64_t>(choice);
  const bool is_raw = prompt.answer.dialect == nullptr;
  return {.engine_request = {.id = sender.request_id,
                             .route = sender.route,
                             .client = sender.client,
                             .prompt = prompt.ids,
                             .images = prompt.images,
                             .max_tokens = request.max_tokens.value_or(0),
                             .sampling = std::move(sampling),
                             .stop = is_raw ? request.stop : std::vector<std::string>(),
                             .constraint = prompt.constraint,
                             .thought_limit = prompt.thought_limit,
                             .logprobs = request.logprobs,
                             .top_logprobs = request.top_logprobs,
                             .shown_control = app.marker_tokens,
                             .ignore_end = false},
          .images = prompt.seen,
          .answer = prompt.answer};
}

}  // namespace

Result<std::vector<Prepared>> prepare(const ChatRequest& request, const App& app, const Sender& sender,
                                      const std::function<bool()>& is_cancelled) {
  T9_TRY_VOID(check_logit_bias(request.sampling, app.context.tokenizer));
  T9_TRY(prompts, prepare_prompts(request, app, sender, is_cancelled));
  std::vector<Prepared> prepared;
  for (const Prompt& prompt : prompts) {
    for (int64_t choice = 0; choice < request.n_choices; ++choice) {
      prepared.push_back(finish(request, prompt, choice, app, sender));
    }
  }
  return prepared;
}

Result<int64_t> count_prompt_tokens(const ChatRequest& request, const ServerContext& context,
                                    const std::function<bool()>& is_cancelled) {
  T9_TRY(shown, render(request.conversation, context, is_cancelled));
  tokenizer::EncodeOptions options;
  options.is_cancelled = is_cancelled;
  T9_TRY(prompt, chat::encode_prompt(context.tokenizer, shown.rendered, options));
  T9_TRY_VOID(make_room_for_images(prompt, 0, shown.seen, context));
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
