// The answers of /api/chat and /api/generate: spec api 6.3 and 6.6.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/json_text.h"
#include "server/dialects/ollama.h"
#include "server/dialects/ollama_request.h"
#include "server/dialects/token_logprobs.h"
#include "server/generation.h"
#include "server/ids.h"

namespace tempo9::server {

namespace {

using chat::tools::AnswerEvent;
using Clock = std::chrono::steady_clock;

// The model is in memory as long as the process lives; clients divide by this.
constexpr int64_t kLoadNs = 1'000'000;

int64_t nanoseconds(double ms) { return static_cast<int64_t>(ms * 1e6); }

// "2026-01-01T10:00:00.123456Z".
std::string now_text() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  const auto seconds = static_cast<std::time_t>(us / 1'000'000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(seconds), us % 1'000'000);
}

// Where an object has the answer's text.
enum class Shape : uint8_t {
  kMessage,   // in a message: /api/chat
  kResponse,  // beside the other members: /api/generate
};

// What one object shows of the answer.
struct Part {
  std::string thinking;
  std::string content;
  std::vector<std::string> calls;  // JSON text
  Json logprobs = Json::array();
};

// What all objects of one answer have in common.
struct OllamaEnvelope {
  Shape shape = Shape::kMessage;
  std::string model;

  // One object as JSON text: what it shows, then the members of `tail`.
  std::string object(const Part& part, const Json& tail) const {
    Json object = {{"model", model}, {"created_at", now_text()}};
    if (shape == Shape::kResponse) {
      object["response"] = part.content;
      if (!part.thinking.empty()) object["thinking"] = part.thinking;
    }
    std::string text = dump_json(object);
    if (shape == Shape::kMessage) text = dump_json_with(object, "message", message(part));
    text.pop_back();
    if (!part.logprobs.empty()) text += ",\"logprobs\":" + dump_json(part.logprobs);
    return fmt::format("{},{}", text, std::string_view(dump_json(tail)).substr(1));
  }

 private:
  static std::string message(const Part& part) {
    Json message = {{"role", "assistant"}, {"content", part.content}};
    if (!part.thinking.empty()) message["thinking"] = part.thinking;
    if (part.calls.empty()) return dump_json(message);
    return dump_json_with(message, "tool_calls", fmt::format("[{}]", fmt::join(part.calls, ",")));
  }
};

// Calls are objects, and so come whole or, when the model broke off inside, not at all.
class CallCollector {
 public:
  void begin(std::string name) {
    name_ = std::move(name);
    arguments_.clear();
  }
  void add(std::string_view arguments) { arguments_ += arguments; }
  // The call as JSON text; empty when there is none to show.
  std::string end(bool is_complete) {
    if (arguments_.empty()) arguments_ = "{}";
    const auto parsed = is_complete ? chat::parse_json_text(arguments_) : std::nullopt;
    if (!parsed || !parsed->is_object()) {
      spdlog::info("event=call_dropped tool=\"{}\" bytes={}", name_, arguments_.size());
      return {};
    }
    const std::string function = dump_json_with({{"index", n_++}, {"name", name_}}, "arguments", arguments_);
    return dump_json_with({{"id", "call_" + random_base36(8)}}, "function", function);
  }

 private:
  std::string name_;
  std::string arguments_;
  int n_ = 0;
};

// What both forms of an answer share.
class OllamaWriter : public AnswerWriter {
 public:
  OllamaWriter(const ChatRequest& request, Shape shape, const App& app, std::string request_id)
      : envelope_{.shape = shape, .model = request.model},
        request_id_(std::move(request_id)),
        tokenizer_(app.context.tokenizer),
        gives_context_(shape == Shape::kResponse && request.raw_prompts.empty()) {}

  // Nothing is sent before there is a token, so that an early failure still has a status.
  std::optional<http::Piece> begin(int64_t) override { return std::nullopt; }

  void note_prompt(const std::vector<int32_t>& ids) override {
    if (gives_context_) ids_ = ids;
  }

 protected:
  void note_tokens(const AnswerUpdate& update) {
    if (gives_context_) ids_.insert(ids_.end(), update.tokens.begin(), update.tokens.end());
  }

  // Adds what `event` shows. True when the part is to be sent before more is added: it holds a call.
  void add(const AnswerEvent& event, Part& part) {
    switch (event.kind) {
      case AnswerEvent::Kind::kReasoning:
        part.thinking += event.text;
        break;
      case AnswerEvent::Kind::kContent:
        part.content += event.text;
        break;
      case AnswerEvent::Kind::kCallBegin:
        calls_.begin(event.text);
        break;
      case AnswerEvent::Kind::kCallArguments:
        calls_.add(event.text);
        break;
      case AnswerEvent::Kind::kCallEnd:
        if (std::string call = calls_.end(event.is_complete); !call.empty()) part.calls.push_back(std::move(call));
        break;
    }
  }

  void add_logprobs(const AnswerUpdate& update, Part& part) const {
    for (const engine::TokenInfo& info : update.logprobs) {
      part.logprobs.push_back(token_logprob_json(info, tokenizer_));
    }
  }

  Json last_tail(const AnswerUpdate& last) const {
    const engine::Usage& usage = last.usage.engine;
    const auto total = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count();
    Json tail = {{"done", true}, {"done_reason", last.finish->reason == FinishReason::kLength ? "length" : "stop"}};
    if (gives_context_) tail["context"] = ids_;
    tail["total_duration"] = total;
    tail["load_duration"] = kLoadNs;
    tail["prompt_eval_count"] = usage.prompt_tokens;
    tail["prompt_eval_duration"] = nanoseconds(usage.prefill_ms);
    tail["eval_count"] = usage.completion_tokens;
    tail["eval_duration"] = nanoseconds(usage.decode_ms);
    return tail;
  }

  http::Piece error_piece(const Error& error) const {
    return {.head = write_ollama_error(error, request_id_), .bytes = {}, .is_last = true};
  }

  const OllamaEnvelope envelope_;

 private:
  const std::string request_id_;
  const tokenizer::Tokenizer& tokenizer_;
  const bool gives_context_;
  const Clock::time_point begin_ = Clock::now();
  std::vector<int32_t> ids_;  // of the prompt and the answer so far
  CallCollector calls_;
};

class OllamaStreamWriter : public OllamaWriter {
 public:
  using OllamaWriter::OllamaWriter;

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    note_tokens(update);
    if (update.error && !is_begun_) return error_piece(*update.error);
    std::string bytes = lines(update);
    if (update.error) bytes += dump_json(ollama_error_body(*update.error)) + "\n";
    if (update.finish) bytes += envelope_.object({}, last_tail(update)) + "\n";
    if (bytes.empty()) return std::nullopt;
    return piece(std::move(bytes), update.error || update.finish);
  }

 private:
  // A line for each kind of text, and for each call.
  std::string lines(const AnswerUpdate& update) {
    std::string bytes;
    const Json tail = {{"done", false}};
    Part logprobs;
    add_logprobs(update, logprobs);
    for (const AnswerEvent& event : update.events) {
      Part part;
      add(event, part);
      if (part.thinking.empty() && part.content.empty() && part.calls.empty()) continue;
      if (!part.content.empty()) part.logprobs = std::exchange(logprobs.logprobs, Json::array());
      bytes += envelope_.object(part, tail) + "\n";
    }
    // Of content that came earlier, and is now known to be all of its token's.
    if (!logprobs.logprobs.empty()) bytes += envelope_.object(logprobs, tail) + "\n";
    return bytes;
  }

  http::Piece piece(std::string bytes, bool is_last) {
    if (std::exchange(is_begun_, true)) return {.head = {}, .bytes = std::move(bytes), .is_last = is_last};
    http::Response head{.status = 200,
                        .headers = {{"Content-Type", "application/x-ndjson"}, {"Cache-Control", "no-cache"}},
                        .body = {}};
    // An answer of one piece is sent as a whole.
    if (is_last) std::swap(head.body, bytes);
    return {.head = std::move(head), .bytes = std::move(bytes), .is_last = is_last};
  }

  bool is_begun_ = false;
};

class OllamaObjectWriter : public OllamaWriter {
 public:
  using OllamaWriter::OllamaWriter;

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    note_tokens(update);
    if (update.error) return error_piece(*update.error);
    for (const AnswerEvent& event : update.events) add(event, all_);
    add_logprobs(update, all_);
    if (!update.finish) return std::nullopt;
    return http::Piece{
        .head = ollama_response(envelope_.object(all_, last_tail(update))), .bytes = {}, .is_last = true};
  }

 private:
  Part all_;
};

template <Shape kShape>
std::unique_ptr<AnswerWriter> make_writer(const ChatRequest& request, const App& app, std::string request_id) {
  if (request.stream) return std::make_unique<OllamaStreamWriter>(request, kShape, app, std::move(request_id));
  return std::make_unique<OllamaObjectWriter>(request, kShape, app, std::move(request_id));
}

// One object, whether or not a stream was asked for.
template <Shape kShape>
http::Response write_residency(const ChatRequest& request) {
  const bool unloads = request.residency == Residency::kUnload;
  const Json tail = {{"done", true}, {"done_reason", unloads ? "unload" : "load"}};
  return ollama_response(OllamaEnvelope{.shape = kShape, .model = request.model}.object({}, tail));
}

constexpr GenerationDialect kChat = {.parse = parse_ollama_chat,
                                     .make_writer = make_writer<Shape::kMessage>,
                                     .write_error = write_ollama_error,
                                     .write_residency = write_residency<Shape::kMessage>};
constexpr GenerationDialect kGenerate = {.parse = parse_ollama_generate,
                                         .make_writer = make_writer<Shape::kResponse>,
                                         .write_error = write_ollama_error,
                                         .write_residency = write_residency<Shape::kResponse>};

}  // namespace

std::unique_ptr<http::Answer> handle_ollama_chat(http::Request request, std::string, const App& app) {
  return generate(std::move(request), kChat, app);
}

std::unique_ptr<http::Answer> handle_ollama_generate(http::Request request, std::string, const App& app) {
  return generate(std::move(request), kGenerate, app);
}

}  // namespace tempo9::server
