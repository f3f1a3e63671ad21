// The answers of /v1/chat/completions.
#include "server/dialects/openai_chat.h"

#include <utility>
#include <vector>

#include "server/dialects/openai.h"
#include "server/dialects/openai_objects.h"
#include "server/dialects/token_logprobs.h"
#include "server/ids.h"

namespace tempo9::server {

namespace {

using chat::tools::AnswerEvent;

std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEnd:
    case FinishReason::kStopString:
      return "stop";
    case FinishReason::kToolCalls:
      return "tool_calls";
    case FinishReason::kLength:
      return "length";
  }
  return "stop";
}

std::string new_call_id() { return "call_" + random_base62(24); }

class ChatStreamWriter : public AnswerWriter {
 public:
  ChatStreamWriter(OpenAiEnvelope envelope, const ChatRequest& request, const tokenizer::Tokenizer& tokenizer)
      : envelope_(std::move(envelope)),
        include_usage_(request.include_usage),
        n_choices_(request.n_choices),
        choices_(1, request.n_choices),
        tokenizer_(tokenizer) {}

  std::optional<http::Piece> begin(int64_t) override {
    std::string bytes;
    for (int32_t choice = 0; choice < n_choices_; ++choice) {
      bytes += openai_event(chunk(choice, {{"role", "assistant"}, {"content", ""}}));
    }
    return http::Piece{.head = openai_stream_head(envelope_.request_id), .bytes = std::move(bytes), .is_last = false};
  }

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    std::string bytes;
    Json logprobs = logprobs_json(update.logprobs);
    for (const AnswerEvent& event : update.events) {
      const bool is_content = event.kind == AnswerEvent::Kind::kContent;
      Json of_event = is_content ? std::exchange(logprobs, nullptr) : Json();
      if (Json delta = delta_of(event); !delta.is_null()) {
        bytes += openai_event(chunk(update.choice, std::move(delta), std::move(of_event)));
      }
    }
    // Of content that came earlier, and is now known to be all of its token's.
    if (!logprobs.is_null()) bytes += openai_event(chunk(update.choice, {{"content", ""}}, std::move(logprobs)));
    const bool is_last = update.error ? end_by_error(*update.error, bytes) : update.finish && end_choice(update, bytes);
    if (bytes.empty()) return std::nullopt;
    return http::Piece{.head = {}, .bytes = std::move(bytes), .is_last = is_last};
  }

  std::string keep_alive() override { return ": keep-alive\n\n"; }

 private:
  static bool end_by_error(const Error& error, std::string& bytes) {
    bytes += openai_event(openai_error_body(error));
    bytes += kOpenAiDone;
    return true;
  }

  // True when it was the last one.
  bool end_choice(const AnswerUpdate& last, std::string& bytes) {
    bytes += openai_event(chunk(last.choice, Json::object(), nullptr, finish_name(last.finish->reason)));
    if (!choices_.finish(last)) return false;
    if (include_usage_) bytes += openai_event(usage_chunk());
    bytes += kOpenAiDone;
    return true;
  }

  // Null for an event that this API does not write: a call ends where the next one, or the finish, comes.
  static Json delta_of(const AnswerEvent& event) {
    switch (event.kind) {
      case AnswerEvent::Kind::kReasoning:
        return {{"reasoning_content", event.text}};
      case AnswerEvent::Kind::kContent:
        return {{"content", event.text}};
      case AnswerEvent::Kind::kCallBegin:
        return call_delta({{"index", event.call},
                           {"id", new_call_id()},
                           {"type", "function"},
                           {"function", {{"name", event.text}, {"arguments", ""}}}});
      case AnswerEvent::Kind::kCallArguments:
        return call_delta({{"index", event.call}, {"function", {{"arguments", event.text}}}});
      case AnswerEvent::Kind::kCallEnd:
        break;
    }
    return {};
  }
  static Json call_delta(Json call) { return {{"tool_calls", Json::array({std::move(call)})}}; }

  Json logprobs_json(const std::vector<engine::TokenInfo>& infos) const {
    if (infos.empty()) return nullptr;
    Json entries = Json::array();
    for (const engine::TokenInfo& info : infos) entries.push_back(token_logprob_json(info, tokenizer_));
    return {{"content", std::move(entries)}, {"refusal", nullptr}};
  }

  Json chunk(int32_t index, Json delta, Json logprobs = nullptr, Json finish_reason = nullptr) const {
    Json object = envelope_.object("chat.completion.chunk");
    const Json choice = {{"index", index},
                         {"delta", std::move(delta)},
                         {"logprobs", std::move(logprobs)},
                         {"finish_reason", std::move(finish_reason)}};
    object["choices"] = Json::array({choice});
    if (include_usage_) object["usage"] = nullptr;
    return object;
  }

  Json usage_chunk() const {
    Json object = envelope_.object("chat.completion.chunk");
    object["choices"] = Json::array();
    object["usage"] = envelope_.usage(choices_.usage());
    return object;
  }

  const OpenAiEnvelope envelope_;
  const bool include_usage_;
  const int64_t n_choices_;
  OpenAiChoices choices_;
  const tokenizer::Tokenizer& tokenizer_;
};

class ChatObjectWriter : public AnswerWriter {
 public:
  ChatObjectWriter(OpenAiEnvelope envelope, const ChatRequest& request, const tokenizer::Tokenizer& tokenizer)
      : envelope_(std::move(envelope)),
        with_logprobs_(request.logprobs),
        choices_(1, request.n_choices),
        tokenizer_(tokenizer),
        parts_(static_cast<size_t>(request.n_choices)) {}

  std::optional<http::Piece> begin(int64_t) override { return std::nullopt; }

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    if (update.error) {
      return http::Piece{.head = write_openai_error(*update.error, envelope_.request_id), .bytes = {}, .is_last = true};
    }
    Choice& choice = parts_[static_cast<size_t>(update.choice)];
    for (const AnswerEvent& event : update.events) choice.add(event);
    for (const engine::TokenInfo& info : update.logprobs) {
      choice.logprobs.push_back(token_logprob_json(info, tokenizer_));
    }
    if (!update.finish) return std::nullopt;
    choice.finish_reason = finish_name(update.finish->reason);
    if (!choices_.finish(update)) return std::nullopt;
    return http::Piece{.head = openai_response(whole_object(), envelope_.request_id), .bytes = {}, .is_last = true};
  }

 private:
  struct Choice {
    std::string reasoning;
    std::string content;
    Json calls = Json::array();
    Json logprobs = Json::array();
    std::string_view finish_reason;

    void add(const AnswerEvent& event) {
      switch (event.kind) {
        case AnswerEvent::Kind::kReasoning:
          reasoning += event.text;
          break;
        case AnswerEvent::Kind::kContent:
          content += event.text;
          break;
        case AnswerEvent::Kind::kCallBegin:
          calls.push_back(
              {{"id", new_call_id()}, {"type", "function"}, {"function", {{"name", event.text}, {"arguments", ""}}}});
          break;
        case AnswerEvent::Kind::kCallArguments:
          calls.back()["function"]["arguments"].get_ref<std::string&>() += event.text;
          break;
        case AnswerEvent::Kind::kCallEnd:
          break;
      }
    }

    Json message() const {
      Json message = {{"role", "assistant"}, {"content", content}, {"refusal", nullptr}};
      if (content.empty() && !calls.empty()) message["content"] = nullptr;
      if (!reasoning.empty()) message["reasoning_content"] = reasoning;
      if (!calls.empty()) message["tool_calls"] = calls;
      return message;
    }
  };

  Json whole_object() const {
    Json list = Json::array();
    for (const Choice& choice : parts_) {
      Json logprobs;
      if (with_logprobs_) logprobs = {{"content", choice.logprobs}, {"refusal", nullptr}};
      list.push_back({{"index", list.size()},
                      {"message", choice.message()},
                      {"logprobs", std::move(logprobs)},
                      {"finish_reason", choice.finish_reason}});
    }
    Json object = envelope_.object("chat.completion");
    object["choices"] = std::move(list);
    object["usage"] = envelope_.usage(choices_.usage());
    return object;
  }

  const OpenAiEnvelope envelope_;
  const bool with_logprobs_;
  OpenAiChoices choices_;
  const tokenizer::Tokenizer& tokenizer_;
  std::vector<Choice> parts_;
};

constexpr GenerationDialect kChat = {
    .parse = parse_openai_chat, .make_writer = make_openai_chat_writer, .write_error = write_openai_error};

}  // namespace

std::unique_ptr<AnswerWriter> make_openai_chat_writer(const ChatRequest& request, const App& app,
                                                      std::string request_id) {
  OpenAiEnvelope envelope = make_openai_envelope(request, std::move(request_id), "chatcmpl-");
  const tokenizer::Tokenizer& tokenizer = app.context.tokenizer;
  if (request.stream) return std::make_unique<ChatStreamWriter>(std::move(envelope), request, tokenizer);
  return std::make_unique<ChatObjectWriter>(std::move(envelope), request, tokenizer);
}

std::unique_ptr<http::Answer> handle_openai_chat(http::Request request, std::string, const App& app) {
  return generate(std::move(request), kChat, app);
}

}  // namespace tempo9::server
