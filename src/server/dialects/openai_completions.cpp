// The answers of /v1/completions.
#include "server/dialects/openai_completions.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "server/dialects/openai.h"
#include "server/dialects/openai_objects.h"
#include "server/dialects/token_logprobs.h"
#include "server/generation.h"

namespace tempo9::server {

namespace {

using chat::tools::AnswerEvent;

int64_t n_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// What this API writes of some tokens: four lists side by side.
class LogprobLists {
 public:
  void add(const engine::TokenInfo& info, int64_t offset, const tokenizer::Tokenizer& tokenizer) {
    tokens_.push_back(sanitize_utf8(info.bytes));
    logprobs_.push_back(finite_logprob(info.chosen.logprob));
    Json top = Json::object();
    for (const engine::TokenLogprob& candidate : info.top) {
      top[sanitize_utf8(tokenizer.piece(candidate.token, /*special=*/true))] = finite_logprob(candidate.logprob);
    }
    top_.push_back(std::move(top));
    offsets_.push_back(offset);
  }
  Json json() const {
    return {{"tokens", tokens_}, {"token_logprobs", logprobs_}, {"top_logprobs", top_}, {"text_offset", offsets_}};
  }

 private:
  Json tokens_ = Json::array();
  Json logprobs_ = Json::array();
  Json top_ = Json::array();
  Json offsets_ = Json::array();  // in characters, from the beginning of the choice's text
};

// What both forms of an answer know of a choice.
struct Choice {
  int64_t offset = 0;  // characters of its tokens so far, the prompt's before them if it is echoed
  std::string text;
  LogprobLists logprobs;
  std::string_view finish_reason;
};

class CompletionWriter : public AnswerWriter {
 public:
  CompletionWriter(OpenAiEnvelope envelope, const ChatRequest& request, const App& app)
      : envelope_(std::move(envelope)),
        with_logprobs_(request.logprobs),
        tokenizer_(app.context.tokenizer),
        all_(n_prompts(request), request.n_choices) {
    for (const RawPrompt& prompt : request.raw_prompts) {
      const std::string echo = request.echoes_prompt ? text_of(prompt) : std::string();
      for (int64_t i = 0; i < request.n_choices; ++i) {
        choices_.push_back({.offset = n_characters(echo), .text = echo});
      }
    }
  }

 protected:
  static std::string text_in(const AnswerUpdate& update) {
    std::string text;
    for (const AnswerEvent& event : update.events) text += event.text;
    return text;
  }

  void add_logprobs(const AnswerUpdate& update, Choice& choice, LogprobLists& lists) const {
    for (const engine::TokenInfo& info : update.logprobs) {
      lists.add(info, choice.offset, tokenizer_);
      choice.offset += n_characters(info.bytes);
    }
  }

  Json choice_json(size_t index, const std::string& text, const LogprobLists* logprobs, Json finish_reason) const {
    return {{"index", index},
            {"text", text},
            {"logprobs", logprobs ? logprobs->json() : Json()},
            {"finish_reason", std::move(finish_reason)}};
  }

  static std::string_view finish_name(const AnswerUpdate& last) {
    return last.finish->reason == FinishReason::kLength ? "length" : "stop";
  }

  Choice& choice_of(const AnswerUpdate& update) { return choices_[static_cast<size_t>(update.choice)]; }

  const OpenAiEnvelope envelope_;
  const bool with_logprobs_;
  const tokenizer::Tokenizer& tokenizer_;
  OpenAiChoices all_;
  std::vector<Choice> choices_;

 private:
  std::string text_of(const RawPrompt& prompt) const {
    return prompt.ids.empty() ? prompt.text : sanitize_utf8(tokenizer_.decode(prompt.ids, /*special=*/true));
  }
};

class CompletionStreamWriter : public CompletionWriter {
 public:
  CompletionStreamWriter(OpenAiEnvelope envelope, const ChatRequest& request, const App& app)
      : CompletionWriter(std::move(envelope), request, app), include_usage_(request.include_usage) {}

  std::optional<http::Piece> begin(int64_t) override {
    std::string bytes;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (!choices_[i].text.empty()) bytes += chunk(choice_json(i, choices_[i].text, nullptr, nullptr));
    }
    return http::Piece{.head = openai_stream_head(envelope_.request_id), .bytes = std::move(bytes), .is_last = false};
  }

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    const auto index = static_cast<size_t>(update.choice);
    const std::string text = text_in(update);
    LogprobLists logprobs;
    add_logprobs(update, choice_of(update), logprobs);
    std::string bytes;
    if (!text.empty() || !update.logprobs.empty()) {
      bytes += chunk(choice_json(index, text, with_logprobs_ ? &logprobs : nullptr, nullptr));
    }
    bool is_last = update.error.has_value();
    if (update.error) bytes += openai_event(openai_error_body(*update.error));
    if (update.finish) {
      bytes += chunk(choice_json(index, "", nullptr, finish_name(update)));
      is_last = all_.finish(update);
      if (is_last && include_usage_) bytes += usage_chunk();
    }
    if (is_last) bytes += kOpenAiDone;
    if (bytes.empty()) return std::nullopt;
    return http::Piece{.head = {}, .bytes = std::move(bytes), .is_last = is_last};
  }

  std::string keep_alive() override { return ": keep-alive\n\n"; }

 private:
  std::string chunk(Json choice) const {
    Json object = envelope_.object("text_completion");
    object["choices"] = Json::array({std::move(choice)});
    if (include_usage_) object["usage"] = nullptr;
    return openai_event(object);
  }

  std::string usage_chunk() const {
    Json object = envelope_.object("text_completion");
    object["choices"] = Json::array();
    object["usage"] = envelope_.usage(all_.usage());
    return openai_event(object);
  }

  const bool include_usage_;
};

class CompletionObjectWriter : public CompletionWriter {
 public:
  using CompletionWriter::CompletionWriter;

  std::optional<http::Piece> begin(int64_t) override { return std::nullopt; }

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    if (update.error) {
      return http::Piece{.head = write_openai_error(*update.error, envelope_.request_id), .bytes = {}, .is_last = true};
    }
    Choice& choice = choice_of(update);
    choice.text += text_in(update);
    add_logprobs(update, choice, choice.logprobs);
    if (!update.finish) return std::nullopt;
    choice.finish_reason = finish_name(update);
    if (!all_.finish(update)) return std::nullopt;
    return http::Piece{.head = openai_response(whole_object(), envelope_.request_id), .bytes = {}, .is_last = true};
  }

 private:
  Json whole_object() const {
    Json object = envelope_.object("text_completion");
    object["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      object["choices"].push_back(
          choice_json(i, choice.text, with_logprobs_ ? &choice.logprobs : nullptr, choice.finish_reason));
    }
    object["usage"] = envelope_.usage(all_.usage());
    return object;
  }
};

std::unique_ptr<AnswerWriter> make_writer(const ChatRequest& request, const App& app, std::string request_id) {
  OpenAiEnvelope envelope = make_openai_envelope(request, std::move(request_id), "cmpl-");
  if (request.stream) return std::make_unique<CompletionStreamWriter>(std::move(envelope), request, app);
  return std::make_unique<CompletionObjectWriter>(std::move(envelope), request, app);
}

constexpr GenerationDialect kCompletions = {
    .parse = parse_openai_completion, .make_writer = make_writer, .write_error = write_openai_error};

}  // namespace

std::unique_ptr<http::Answer> handle_openai_completions(http::Request request, std::string, const App& app) {
  return generate(std::move(request), kCompletions, app);
}

}  // namespace tempo9::server
