#include "server/dialects/anthropic_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>
#include <vector>

#include "chat/json_text.h"
#include "server/dialects/anthropic.h"
#include "server/ids.h"

namespace tempo9::server {

namespace {

using chat::tools::AnswerEvent;

// Clients send a thought back with its signature. Nothing here has to prove that it is unchanged.
constexpr std::string_view kSignature = "dDk=";

std::string new_id(std::string_view prefix) { return fmt::format("{}01{}", prefix, random_base62(22)); }

// The type stands twice: client libraries skip events without an `event:` line.
std::string sse(const Json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", data["type"].get_ref<const std::string&>(), dump_json(data));
}

// Of the prompt, input_tokens are only those that were computed.
Json usage_json(const AnswerUsage& usage) {
  const engine::Usage& tokens = usage.engine;
  return {{"input_tokens", tokens.prompt_tokens - tokens.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", tokens.cached_tokens},
          {"output_tokens", tokens.completion_tokens},
          {"output_tokens_details", {{"thinking_tokens", usage.reasoning_tokens}}}};
}

// What all answers to one request have in common.
struct Envelope {
  std::string request_id;
  std::string id;
  std::string model;
  int64_t max_tokens = 0;

  Json message() const { return {{"id", id}, {"type", "message"}, {"role", "assistant"}, {"model", model}}; }

  // `has_call`: the answer holds a tool_use block.
  std::string_view stop_reason(const AnswerUpdate& last, bool has_call) const {
    switch (last.finish->reason) {
      case FinishReason::kEnd:
        return "end_turn";
      case FinishReason::kStopString:
        return "stop_sequence";
      case FinishReason::kToolCalls:
        return has_call ? "tool_use" : "end_turn";
      case FinishReason::kLength:
        break;
    }
    return last.usage.engine.completion_tokens >= max_tokens ? "max_tokens" : "model_context_window_exceeded";
  }
};

Json stop_sequence(const AnswerUpdate& last) {
  return last.finish->reason == FinishReason::kStopString ? Json(last.finish->stop_string) : Json();
}

class MessageStreamWriter : public AnswerWriter {
 public:
  MessageStreamWriter(Envelope envelope, bool omits_thinking)
      : envelope_(std::move(envelope)), omits_thinking_(omits_thinking) {}

  std::optional<http::Piece> begin(int64_t prompt_tokens) override {
    http::Response head{.status = 200,
                        .headers = {{"Content-Type", "text/event-stream"},
                                    {"Cache-Control", "no-cache"},
                                    {"request-id", envelope_.request_id}},
                        .body = {}};
    Json message = envelope_.message();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = {{"input_tokens", prompt_tokens},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", 0},
                        {"output_tokens", 0}};
    const Json event = {{"type", "message_start"}, {"message", std::move(message)}};
    return http::Piece{.head = std::move(head), .bytes = sse(event), .is_last = false};
  }

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    std::string bytes;
    for (const AnswerEvent& event : update.events) add(event, bytes);
    if (update.error) {
      bytes += sse(anthropic_error_body(*update.error));
    } else if (update.finish) {
      close_block(bytes);
      bytes += sse(message_delta(update));
      bytes += sse({{"type", "message_stop"}});
    }
    if (bytes.empty()) return std::nullopt;
    return http::Piece{.head = {}, .bytes = std::move(bytes), .is_last = update.error || update.finish};
  }

  std::string keep_alive() override { return "event: ping\ndata: {\"type\":\"ping\"}\n\n"; }

 private:
  enum class Block : uint8_t { kNone, kThinking, kText, kToolUse };

  void add(const AnswerEvent& event, std::string& bytes) {
    switch (event.kind) {
      case AnswerEvent::Kind::kReasoning:
        continue_block(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, bytes);
        if (!omits_thinking_) bytes += delta({{"type", "thinking_delta"}, {"thinking", event.text}});
        break;
      case AnswerEvent::Kind::kContent:
        continue_block(Block::kText, {{"type", "text"}, {"text", ""}}, bytes);
        bytes += delta({{"type", "text_delta"}, {"text", event.text}});
        break;
      case AnswerEvent::Kind::kCallBegin:
        close_block(bytes);
        call_name_ = event.text;
        break;
      case AnswerEvent::Kind::kCallArguments:
        continue_call(bytes);
        bytes += delta({{"type", "input_json_delta"}, {"partial_json", event.text}});
        break;
      case AnswerEvent::Kind::kCallEnd:
        if (event.is_complete) continue_call(bytes);
        close_block(bytes);
        break;
    }
  }

  // A call's block begins with its arguments: a block without any would stand for a call with none, and the model may
  // have broken off before them.
  void continue_call(std::string& bytes) {
    if (open_ == Block::kToolUse) return;
    has_call_ = true;
    continue_block(Block::kToolUse,
                   {{"type", "tool_use"}, {"id", new_id("toolu_")}, {"name", call_name_}, {"input", Json::object()}},
                   bytes);
  }

  void continue_block(Block block, Json start, std::string& bytes) {
    if (open_ == block) return;
    close_block(bytes);
    open_ = block;
    bytes += sse({{"type", "content_block_start"}, {"index", index_}, {"content_block", std::move(start)}});
  }

  void close_block(std::string& bytes) {
    if (open_ == Block::kNone) return;
    if (open_ == Block::kThinking) bytes += delta({{"type", "signature_delta"}, {"signature", kSignature}});
    bytes += sse({{"type", "content_block_stop"}, {"index", index_}});
    open_ = Block::kNone;
    ++index_;
  }

  std::string delta(Json content) const {
    return sse({{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(content)}});
  }

  Json message_delta(const AnswerUpdate& last) const {
    return {
        {"type", "message_delta"},
        {"delta", {{"stop_reason", envelope_.stop_reason(last, has_call_)}, {"stop_sequence", stop_sequence(last)}}},
        {"usage", usage_json(last.usage)}};
  }

  const Envelope envelope_;
  const bool omits_thinking_;
  Block open_ = Block::kNone;
  std::string call_name_;
  bool has_call_ = false;
  int index_ = 0;  // of the open block, or of the next one
};

class MessageObjectWriter : public AnswerWriter {
 public:
  MessageObjectWriter(Envelope envelope, bool omits_thinking)
      : envelope_(std::move(envelope)), omits_thinking_(omits_thinking) {}

  std::optional<http::Piece> begin(int64_t) override { return std::nullopt; }

  std::optional<http::Piece> write(const AnswerUpdate& update) override {
    for (const AnswerEvent& event : update.events) add(event);
    if (update.error) {
      return http::Piece{
          .head = write_anthropic_error(*update.error, envelope_.request_id), .bytes = {}, .is_last = true};
    }
    if (!update.finish) return std::nullopt;
    return http::Piece{
        .head = anthropic_response(whole_object(update), envelope_.request_id), .bytes = {}, .is_last = true};
  }

 private:
  using Kind = AnswerEvent::Kind;

  struct Block {
    Kind kind;         // kReasoning, kContent or kCallBegin
    std::string name;  // of a call
    std::string text;  // of a call: its arguments
    bool is_complete = true;
  };

  void add(const AnswerEvent& event) {
    switch (event.kind) {
      case Kind::kReasoning:
      case Kind::kContent:
        if (blocks_.empty() || blocks_.back().kind != event.kind) blocks_.push_back({.kind = event.kind});
        blocks_.back().text += event.text;
        break;
      case Kind::kCallBegin:
        blocks_.push_back({.kind = event.kind, .name = event.text});
        break;
      case Kind::kCallArguments:
        blocks_.back().text += event.text;
        break;
      case Kind::kCallEnd:
        blocks_.back().is_complete = event.is_complete;
        break;
    }
  }

  // Empty for a block of which nothing came.
  std::string block_json(const Block& block) const {
    if (block.kind == Kind::kReasoning) {
      return dump_json(
          {{"type", "thinking"}, {"thinking", omits_thinking_ ? "" : block.text}, {"signature", kSignature}});
    }
    if (block.kind == Kind::kCallBegin && is_object(block)) {
      return dump_json_with({{"type", "tool_use"}, {"id", new_id("toolu_")}, {"name", block.name}}, "input",
                            block.text.empty() ? "{}" : block.text);
    }
    // A call that broke off has no object to show, only what there is of its text.
    return block.text.empty() ? std::string() : dump_json({{"type", "text"}, {"text", block.text}});
  }

  static bool is_object(const Block& call) {
    if (!call.is_complete) return false;
    const auto input = chat::parse_json_text(call.text);
    return call.text.empty() || (input && input->is_object());
  }

  std::string whole_object(const AnswerUpdate& last) const {
    std::vector<std::string> blocks;
    bool has_call = false;
    for (const Block& block : blocks_) {
      std::string json = block_json(block);
      if (!json.empty()) blocks.push_back(std::move(json));
      has_call = has_call || (block.kind == Kind::kCallBegin && is_object(block));
    }
    Json message = envelope_.message();
    message["stop_reason"] = envelope_.stop_reason(last, has_call);
    message["stop_sequence"] = stop_sequence(last);
    message["stop_details"] = nullptr;
    message["container"] = nullptr;
    message["usage"] = usage_json(last.usage);
    message["usage"]["server_tool_use"] = nullptr;
    message["usage"]["service_tier"] = "standard";
    message["usage"]["cache_creation"] = {{"ephemeral_5m_input_tokens", 0}, {"ephemeral_1h_input_tokens", 0}};
    return dump_json_with(message, "content", fmt::format("[{}]", fmt::join(blocks, ",")));
  }

  const Envelope envelope_;
  const bool omits_thinking_;
  std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_anthropic_writer(const ChatRequest& request, const App&, std::string request_id) {
  Envelope envelope{.request_id = std::move(request_id),
                    .id = new_id("msg_"),
                    .model = request.model,
                    .max_tokens = request.max_tokens.value_or(0)};
  if (request.stream) return std::make_unique<MessageStreamWriter>(std::move(envelope), request.omit_reasoning_text);
  return std::make_unique<MessageObjectWriter>(std::move(envelope), request.omit_reasoning_text);
}

}  // namespace tempo9::server
