#include "chat/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace tempo9::chat {
namespace {

constexpr std::string_view kBlankLine = "\n\n";

void append_text(std::string& text, std::string_view more, std::string_view separator = kBlankLine) {
  if (!text.empty() && !more.empty()) text += separator;
  text += more;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Message user_message(std::string content) {
  Message message;
  message.role = Role::kUser;
  message.content = std::move(content);
  return message;
}

std::vector<Message> join_leading_systems(std::vector<Message> messages) {
  const auto is_system = [](const Message& m) { return m.role == Role::kSystem; };
  const auto end = std::ranges::find_if_not(messages, is_system);
  if (end - messages.begin() < 2) return messages;
  for (auto it = messages.begin() + 1; it != end; ++it) append_text(messages[0].content, it->content);
  messages.erase(messages.begin() + 1, end);
  return messages;
}

// Not to the front: that would change the prompt from its beginning on whenever a new one comes.
std::vector<Message> place_later_systems(std::vector<Message> messages) {
  std::vector<Message> placed;
  for (Message& message : messages) {
    if (message.role != Role::kSystem || placed.empty()) {
      placed.push_back(std::move(message));
      continue;
    }
    const std::string reminder = fmt::format("<system-reminder>\n{}\n</system-reminder>", message.content);
    const Role before = placed.back().role;
    if (before == Role::kUser || before == Role::kTool) {
      append_text(placed.back().content, reminder);
    } else {
      placed.push_back(user_message(reminder));
    }
  }
  return placed;
}

// A call of its own, with what stood before the calls when it is the first.
Message message_with_call(const Message& message, size_t i) {
  Message one;
  if (i == 0) one = message;
  one.role = Role::kAssistant;
  one.tool_calls = {message.tool_calls[i]};
  return one;
}

// For templates that take one call in a message: each in its own, with its result behind it.
std::vector<Message> split_calls(std::vector<Message> messages) {
  const auto is_result = [&](size_t i) { return i < messages.size() && messages[i].role == Role::kTool; };
  std::vector<Message> split;
  for (size_t i = 0; i < messages.size();) {
    const size_t begin = i;
    while (i < messages.size() && messages[i].role == Role::kAssistant) ++i;
    size_t result = i;
    for (size_t m = begin; m < i; ++m) {
      const size_t n_calls = messages[m].tool_calls.size();
      if (n_calls == 0) split.push_back(std::move(messages[m]));
      for (size_t c = 0; c < n_calls; ++c) {
        split.push_back(message_with_call(messages[m], c));
        if (is_result(result)) split.push_back(std::move(messages[result++]));
      }
    }
    i = result;
    if (i == begin) split.push_back(std::move(messages[i++]));
  }
  return split;
}

// Nine letters and digits that depend on the id alone.
std::string short_id(const std::string& id) {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::string text;
  for (int i = 0; i < 9; ++i, hash /= kDigits.size()) text += kDigits[hash % kDigits.size()];
  return text;
}

void shorten_ids(std::vector<Message>& messages) {
  for (Message& message : messages) {
    for (ToolCall& call : message.tool_calls) call.id = short_id(call.id);
    if (message.role == Role::kTool) message.tool_call_id = short_id(message.tool_call_id);
  }
}

// The reasoning is what the model needs to go on from its calls.
void drop_text_beside_reasoning(std::vector<Message>& messages) {
  for (Message& message : messages) {
    if (!message.tool_calls.empty() && !message.reasoning.empty()) message.content.clear();
  }
}

// The form that the generic tool dialect reads.
void write_calls_as_text(std::vector<Message>& messages) {
  for (Message& message : messages) {
    for (const ToolCall& call : std::exchange(message.tool_calls, {})) {
      const Json object = {{"name", call.name}, {"arguments", call.arguments}};
      append_text(message.content, fmt::format("<tool_call>\n{}\n</tool_call>", dump(object)), "\n");
    }
  }
}

// Results in a row share a turn.
std::vector<Message> write_results_as_text(std::vector<Message> messages) {
  std::vector<Message> written;
  bool was_result = false;
  for (Message& message : messages) {
    const bool is_result = message.role == Role::kTool;
    if (is_result) {
      const std::string text = fmt::format("<tool_response>\n{}\n</tool_response>", message.content);
      if (was_result) {
        append_text(written.back().content, text, "\n");
      } else {
        written.push_back(user_message(text));
      }
    } else {
      written.push_back(std::move(message));
    }
    was_result = is_result;
  }
  return written;
}

std::string tool_instructions(const std::vector<Json>& tools) {
  std::string text = "You can call these tools. Each line describes one as JSON:\n<tools>\n";
  for (const Json& tool : tools) text += dump(tool) + "\n";
  text +=
      "</tools>\nTo call a tool, write its name and arguments as a JSON object between these tags, once for each "
      "call:\n"
      "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {}}\n</tool_call>";
  return text;
}

void add_to_system(std::vector<Message>& messages, const std::string& text) {
  if (messages.empty() || messages[0].role != Role::kSystem) {
    messages.insert(messages.begin(), Message{});
    messages[0].role = Role::kSystem;
  }
  append_text(messages[0].content, text);
}

void move_system_to_user(std::vector<Message>& messages) {
  if (messages.empty() || messages[0].role != Role::kSystem) return;
  const std::string text = std::move(messages[0].content);
  messages.erase(messages.begin());
  if (messages.empty() || messages[0].role != Role::kUser) messages.insert(messages.begin(), user_message({}));
  std::string content = text;
  append_text(content, messages[0].content);
  messages[0].content = std::move(content);
}

std::vector<Message> join_same_roles(std::vector<Message> messages) {
  std::vector<Message> joined;
  for (Message& message : messages) {
    const bool is_same = !joined.empty() && joined.back().role == message.role && message.role != Role::kTool &&
                         joined.back().tool_calls.empty();
    if (!is_same) {
      joined.push_back(std::move(message));
      continue;
    }
    append_text(joined.back().content, message.content);
    append_text(joined.back().reasoning, message.reasoning);
    joined.back().tool_calls = std::move(message.tool_calls);
  }
  return joined;
}

}  // namespace

Conversation adapt_conversation(Conversation conversation, const TemplateTraits& traits) {
  std::vector<Message>& messages = conversation.messages;
  messages = join_leading_systems(std::move(messages));
  if (!traits.takes_later_system) messages = place_later_systems(std::move(messages));
  if (!traits.takes_parallel_calls && traits.takes_tool_calls) messages = split_calls(std::move(messages));
  if (!traits.takes_any_call_id) shorten_ids(messages);
  if (!traits.takes_text_with_reasoning) drop_text_beside_reasoning(messages);
  if (!traits.takes_tool_calls) write_calls_as_text(messages);
  if (!traits.takes_tool_results) messages = write_results_as_text(std::move(messages));
  if (!traits.takes_tools && !conversation.tools.empty()) {
    add_to_system(messages, tool_instructions(conversation.tools));
    conversation.tools.clear();
  }
  if (!traits.takes_system) move_system_to_user(messages);
  if (!traits.takes_same_role_twice) messages = join_same_roles(std::move(messages));
  const bool has_user = std::ranges::any_of(messages, [](const Message& m) { return m.role == Role::kUser; });
  if (!has_user && !traits.takes_no_user) messages.push_back(user_message({}));
  return conversation;
}

}  // namespace tempo9::chat
