// The answers of /v1/chat/completions.
#include "server/dialects/openai_chat.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "server/dialects/openai.h"
#include "server/ids.h"

namespace tempo9::server {

namespace {

using chat::tools::AnswerEvent;

constexpr float kLowestLogprob = -9999.0f;  // stands for minus infinity, which JSON has no way to write

std::string sse(const Json& data) { return fmt::format("data: {}\n\n", dump_json(data)); }
constexpr std::string_view kDone = "data: [DONE]\n\n";

Json logprob_entry(float logprob, std::string_view bytes) {
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<uint8_t>(c));
  return {{"token", sanitize_utf8(bytes)},
          {"logprob", std::isfinite(logprob) ? logprob : kLowestLogprob},
          {"bytes", std::move(numbers)}};
}

// The chosen token stands with its part of the answer, so that the entries' bytes join to the text; the others with
// what they would have written.
Json token_entry(const engine::TokenInfo& info, const tokenizer::Tokenizer& tokenizer) {
  Json entry = logprob_entry(info.chosen.logprob, info.bytes);
  Json top = Json::array();
  for (const engine::TokenLogprob& candidate : info.top) {
    top.push_back(logprob_entry(candidate.logprob, tokenizer.piece(candidate.token, /*special=*/true)));
  }
  entry["top_logprobs"] = std::move(top);
  return entry;
}

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

Json usage_json(const AnswerUsage& usage, bool debug_cache) {
  const engine::Usage& tokens = usage.engine;
  Json json = {{"prompt_tokens", tokens.prompt_tokens},
               {"completion_tokens", tokens.completion_tokens},
               {"total_tokens", tokens.prompt_tokens + tokens.completion_tokens},
               {"prompt_tokens_details", {{"cached_tokens", tokens.cached_tokens}, {"audio_tokens", 0}}},
               {"completion_tokens_details",
                {{"reasoning_tokens", usage.reasoning_tokens},
                 {"audio_tokens", 0},
                 {"accepted_prediction_tokens", 0},
                 {"rejected_prediction_tokens", 0}}}};
  if (debug_cache) {
    json["prompt_tokens_details"]["tempo9"] = {{"common_tokens", tokens.common_tokens},
                                               {"uncached_because", tokens.uncached_because}};
  }
  return json;
}

std::string new_call_id() { return "call_" + random_base62(24); }

// What all objects of one answer have in common.
struct Envelope {
  std::string request_id;
  std::string id;
  int64_t created_s = 0;
  std::string model;
  bool debug_cache = false;

  Json object(std::string_view type) const {
    return {
        {"id", id}, {"object", type}, {"created", created_s}, {"model", model}, {"system_fingerprint", "fp_tempo9"}};
  }
};

class ChatStreamWriter : public AnswerWriter {
 public:
  ChatStreamWriter(Envelope envelope, bool include_usage, const tokenizer::Tokenizer& tokenizer)
      : envelope_(std::move(envelope)), include_usage_(include_usage), tokenizer_(tokenizer) {}

  std::optional<http::Piece> begin(int64_t) override {
    http::Response head{.status = 200,
                        .headers = {{"Content-Type", "text/event-stream"},
                                    {"Cache-Control", "no-cache"},
                                    {"x-request-id", envelope_.request_id}},
                        .body = {}};
    const Json delta = {{"role", "assistant"}, {"content", ""}};
    return http::Piece{.head = std::move(head), .bytes = sse(chunk(delta)), .is_last = false};
  }

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    std::string bytes;
    Json logprobs = logprobs_json(update.logprobs);
    for (const AnswerEvent& event : update.events) {
      const bool is_content = event.kind == AnswerEvent::Kind::kContent;
      Json of_event = is_content ? std::exchange(logprobs, nullptr) : Json();
      if (Json delta = delta_of(event); !delta.is_null()) bytes += sse(chunk(std::move(delta), std::move(of_event)));
    }
    // Of content that came earlier, and is now known to be all of its token's.
    if (!logprobs.is_null()) bytes += sse(chunk({{"content", ""}}, std::move(logprobs)));
    if (update.error) {
      bytes += sse(openai_error_body(*update.error));
      bytes += kDone;
    } else if (update.finish) {
      bytes += sse(chunk(Json::object(), nullptr, finish_name(update.finish->reason)));
      if (include_usage_) bytes += sse(usage_chunk(update.usage));
      bytes += kDone;
    }
    if (bytes.empty()) return std::nullopt;
    return http::Piece{.head = {}, .bytes = std::move(bytes), .is_last = update.error || update.finish};
  }

  std::string_view keep_alive() const override { return ": keep-alive\n\n"; }

 private:
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
    for (const engine::TokenInfo& info : infos) entries.push_back(token_entry(info, tokenizer_));
    return {{"content", std::move(entries)}, {"refusal", nullptr}};
  }

  Json chunk(Json delta, Json logprobs = nullptr, Json finish_reason = nullptr) const {
    Json object = envelope_.object("chat.completion.chunk");
    const Json choice = {{"index", 0},
                         {"delta", std::move(delta)},
                         {"logprobs", std::move(logprobs)},
                         {"finish_reason", std::move(finish_reason)}};
    object["choices"] = Json::array({choice});
    if (include_usage_) object["usage"] = nullptr;
    return object;
  }

  Json usage_chunk(const AnswerUsage& usage) const {
    Json object = envelope_.object("chat.completion.chunk");
    object["choices"] = Json::array();
    object["usage"] = usage_json(usage, envelope_.debug_cache);
    return object;
  }

  const Envelope envelope_;
  const bool include_usage_;
  const tokenizer::Tokenizer& tokenizer_;
};

class ChatObjectWriter : public AnswerWriter {
 public:
  ChatObjectWriter(Envelope envelope, bool with_logprobs, const tokenizer::Tokenizer& tokenizer)
      : envelope_(std::move(envelope)), with_logprobs_(with_logprobs), tokenizer_(tokenizer) {}

  std::optional<http::Piece> begin(int64_t) override { return std::nullopt; }

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    for (const AnswerEvent& event : update.events) add(event);
    for (const engine::TokenInfo& info : update.logprobs) logprobs_.push_back(token_entry(info, tokenizer_));
    if (update.error) {
      return http::Piece{.head = write_openai_error(*update.error, envelope_.request_id), .bytes = {}, .is_last = true};
    }
    if (!update.finish) return std::nullopt;
    return http::Piece{
        .head = openai_response(whole_object(update), envelope_.request_id), .bytes = {}, .is_last = true};
  }

 private:
  void add(const AnswerEvent& event) {
    switch (event.kind) {
      case AnswerEvent::Kind::kReasoning:
        reasoning_ += event.text;
        break;
      case AnswerEvent::Kind::kContent:
        content_ += event.text;
        break;
      case AnswerEvent::Kind::kCallBegin:
        calls_.push_back(
            {{"id", new_call_id()}, {"type", "function"}, {"function", {{"name", event.text}, {"arguments", ""}}}});
        break;
      case AnswerEvent::Kind::kCallArguments:
        calls_.back()["function"]["arguments"].get_ref<std::string&>() += event.text;
        break;
      case AnswerEvent::Kind::kCallEnd:
        break;
    }
  }

  Json message() {
    Json message = {{"role", "assistant"}, {"content", content_}, {"refusal", nullptr}};
    if (content_.empty() && !calls_.empty()) message["content"] = nullptr;
    if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
    if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
    return message;
  }

  Json whole_object(const AnswerUpdate& last) {
    Json logprobs;
    if (with_logprobs_) logprobs = {{"content", std::move(logprobs_)}, {"refusal", nullptr}};
    const Json choice = {{"index", 0},
                         {"message", message()},
                         {"logprobs", std::move(logprobs)},
                         {"finish_reason", finish_name(last.finish->reason)}};
    Json object = envelope_.object("chat.completion");
    object["choices"] = Json::array({choice});
    object["usage"] = usage_json(last.usage, envelope_.debug_cache);
    return object;
  }

  const Envelope envelope_;
  const bool with_logprobs_;
  const tokenizer::Tokenizer& tokenizer_;
  std::string reasoning_;
  std::string content_;
  Json calls_ = Json::array();
  Json logprobs_ = Json::array();
};

constexpr GenerationDialect kChat = {
    .parse = parse_openai_chat, .make_writer = make_openai_chat_writer, .write_error = write_openai_error};

}  // namespace

std::unique_ptr<AnswerWriter> make_openai_chat_writer(const ChatRequest& request, const App& app,
                                                      std::string request_id) {
  Envelope envelope{.request_id = std::move(request_id),
                    .id = "chatcmpl-" + random_base62(24),
                    .created_s = std::time(nullptr),
                    .model = request.model,
                    .debug_cache = request.debug_cache};
  const tokenizer::Tokenizer& tokenizer = app.context.tokenizer;
  if (request.stream) {
    return std::make_unique<ChatStreamWriter>(std::move(envelope), request.include_usage, tokenizer);
  }
  return std::make_unique<ChatObjectWriter>(std::move(envelope), request.logprobs, tokenizer);
}

std::unique_ptr<http::Answer> handle_openai_chat(http::Request request, std::string, const App& app) {
  return generate(std::move(request), kChat, app);
}

}  // namespace tempo9::server
