#include "cli/chat_client.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>

namespace tempo9::cli {

using Clock = std::chrono::steady_clock;

namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// What is at the pointer if it is a string.
std::string text_at(const nlohmann::json& json, const char* pointer) {
  const nlohmann::json value = json.value(nlohmann::json::json_pointer(pointer), nlohmann::json());
  return value.is_string() ? value.get<std::string>() : "";
}

int64_t count_at(const nlohmann::json& json, const char* pointer) {
  const nlohmann::json value = json.value(nlohmann::json::json_pointer(pointer), nlohmann::json());
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

// What a body that reports an error says.
Error server_error(const nlohmann::json& body, std::string_view otherwise) {
  const std::string message = body.is_object() ? text_at(body, "/error/message") : "";
  return Error(ErrorCode::kIo, message.empty() ? std::string(otherwise) : message);
}

}  // namespace

// An answer under way: what has come of it.
struct ChatClient::Answer {
  const ChatSink& sink;
  Clock::time_point started = Clock::now();
  std::optional<Clock::time_point> first;
  Clock::time_point last = started;
  std::string unread;  // not yet a whole line
  std::string text;
  ChatCost cost;

  // Errors: what the server says is wrong; kCancelled when the sink takes no more.
  Result<void> read(std::string_view bytes);
  Result<void> read_event(const nlohmann::json& event);
  ChatCost finish();
};

Result<void> ChatClient::Answer::read(std::string_view bytes) {
  constexpr std::string_view kData = "data: ";
  unread += bytes;
  for (size_t end = 0; (end = unread.find('\n')) != std::string::npos; unread.erase(0, end + 1)) {
    const std::string_view line = std::string_view(unread).substr(0, end);
    if (!line.starts_with(kData)) continue;
    const nlohmann::json event = nlohmann::json::parse(line.substr(kData.size()), nullptr, /*allow_exceptions=*/false);
    if (event.is_object()) T9_TRY_VOID(read_event(event));
  }
  return {};
}

Result<void> ChatClient::Answer::read_event(const nlohmann::json& event) {
  if (event.contains("error")) return fail(server_error(event, "the server reports an error"));
  const std::string said = text_at(event, "/choices/0/delta/content");
  const std::string thought = text_at(event, "/choices/0/delta/reasoning_content");
  if (!said.empty() || !thought.empty()) {
    last = Clock::now();
    if (!first) first = last;
  }
  if (event.contains("usage") && event["usage"].is_object()) {
    cost.prompt_tokens = count_at(event, "/usage/prompt_tokens");
    cost.cached_tokens = count_at(event, "/usage/prompt_tokens_details/cached_tokens");
    cost.completion_tokens = count_at(event, "/usage/completion_tokens");
  }
  cost.is_cut |= text_at(event, "/choices/0/finish_reason") == "length";
  text += said;
  sink.thought(thought);
  if (!sink.text(said)) return fail(ErrorCode::kCancelled, "nobody reads the answer");
  return {};
}

ChatCost ChatClient::Answer::finish() {
  cost.first_token_s = seconds_between(started, first.value_or(last));
  const double writing_s = first ? seconds_between(*first, last) : 0.0;
  constexpr double kLeastSeconds = 0.02;  // less is how fast the socket was read
  if (writing_s > kLeastSeconds && cost.completion_tokens > 1) {
    cost.tokens_per_second = static_cast<double>(cost.completion_tokens - 1) / writing_s;
  }
  return cost;
}

ChatClient::ChatClient(HttpAddress address, ChatParameters parameters)
    : address_(std::move(address)), parameters_(std::move(parameters)) {
  reset();
}

void ChatClient::reset() {
  messages_ = nlohmann::json::array();
  if (!parameters_.system.empty()) messages_.push_back({{"role", "system"}, {"content", parameters_.system}});
}

Result<std::string> ChatClient::model_name() const {
  T9_TRY(stream, HttpStream::send(address_, "/v1/models", ""));
  T9_TRY(body, stream.read_all());
  const nlohmann::json json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  const std::string name = json.is_object() ? text_at(json, "/data/0/id") : "";
  if (name.empty()) {
    return fail(server_error(json, fmt::format("http://{}:{}: no model is served there (status {})", address_.host,
                                               address_.port, stream.status())));
  }
  return name;
}

Result<ChatCost> ChatClient::say(std::string text, const ChatSink& sink, int interrupt_fd) {
  nlohmann::json messages = messages_;
  messages.push_back({{"role", "user"}, {"content", std::move(text)}});
  nlohmann::json request = {{"messages", messages}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  if (parameters_.temperature >= 0) request["temperature"] = parameters_.temperature;
  if (parameters_.max_tokens > 0) request["max_tokens"] = parameters_.max_tokens;

  Answer answer{.sink = sink, .first = {}, .unread = {}, .text = {}, .cost = {}};
  const std::string body = request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  T9_TRY(stream, HttpStream::send(address_, "/v1/chat/completions", body));
  Result<void> read;
  while (read) {
    auto more = stream.read(interrupt_fd);
    if (!more) {
      read = fail(std::move(more).error());
    } else if (!*more) {
      break;
    } else if (stream.status() != 200) {
      T9_TRY(rest, stream.read_all(interrupt_fd));
      return fail(server_error(nlohmann::json::parse(**more + rest, nullptr, false),
                               fmt::format("status {}", stream.status())));
    } else {
      read = answer.read(**more);
    }
  }
  if (!read && read.error().code() != ErrorCode::kCancelled) return fail(std::move(read).error());
  messages.push_back({{"role", "assistant"}, {"content", answer.text}});
  if (read || !answer.text.empty()) messages_ = std::move(messages);
  if (!read) return fail(std::move(read).error());
  return answer.finish();
}

}  // namespace tempo9::cli
