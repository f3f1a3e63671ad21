#include "server/dialects/anthropic_conversation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/tool_messages.h"

namespace tempo9::server {

namespace {

using chat::ImageReader;
using chat::Message;
using chat::Role;

// Claude Code's first system block is a line of this kind, whose value changes with every request: it would be a new
// prompt from the first token on (spec api 5.1).
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header";

// What the blocks of one message say.
struct Turn {
  std::vector<std::string> texts;
  std::string reasoning;
  std::vector<chat::ToolCall> calls;
  std::vector<Message> results;
};

void refuse_content(FieldReader& block, std::string_view name, std::string message) {
  block.refuse(Error(ErrorCode::kInvalidInput, std::move(message))
                   .with_field(block.path_of(name))
                   .with_reason("unsupported_content"));
}

std::vector<std::string> read_texts(FieldReader& fields, std::string_view name, Role role, ImageReader& images);

// With the separator between two texts; an image has none before or behind it.
std::string join(const std::vector<std::string>& texts, std::string_view separator, const ImageReader& images) {
  std::string all;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0 && !images.is_mark(texts[i - 1]) && !images.is_mark(texts[i])) all += separator;
    all += texts[i];
  }
  return all;
}

// Title and the like stand above the text.
std::string below(std::initializer_list<std::optional<std::string>> headings, std::string text) {
  std::string all;
  for (const auto& heading : headings) {
    if (heading && !heading->empty()) all += *heading + "\n";
  }
  return all + text;
}

std::string document_text(FieldReader& block, Role role, ImageReader& images) {
  FieldReader source = block.nested("source");
  const std::string type = source.require_string("type");
  std::string text;
  if (type == "text") {
    text = source.require_string("data");
  } else if (type == "content") {
    text = fmt::format("{}", fmt::join(read_texts(source, "content", role, images), "\n"));
  } else if (!type.empty()) {
    refuse_content(block, "source", fmt::format("PDF input is not supported (a document with the source '{}')", type));
  }
  return below({block.find_string("title")}, std::move(text));
}

std::string search_result_text(FieldReader& block, Role role, ImageReader& images) {
  return below({block.find_string("title"), block.find_string("source")},
               fmt::format("{}", fmt::join(read_texts(block, "content", role, images), "\n")));
}

// What stands for an image; nothing when it is refused.
std::optional<std::string> image_text(FieldReader& block, Role role, ImageReader& images) {
  const auto place = role == Role::kTool ? ImageReader::Place::kToolResult : ImageReader::Place::kMessage;
  const std::string field = block.path_of("source");
  FieldReader source = block.nested("source");
  const std::string type = source.find_string("type").value_or("base64");
  const std::string data = source.find_string("data").value_or("");
  auto text = type == "base64" ? images.read_base64(data, place, field)
              : type == "url"  ? images.refuse("URLs", place, field)
                               : images.refuse(fmt::format("a source of type '{}'", type), place, field);
  if (text) return *std::move(text);
  block.refuse(std::move(text).error());
  return std::nullopt;
}

// Nothing for blocks that do not reach the prompt: new kinds come with every release of a client, and those that
// Anthropic's servers make (server_tool_use, …) may stand in a history that began elsewhere.
std::optional<std::string> text_of(FieldReader& block, std::string_view type, Role role, ImageReader& images) {
  if (type == "text") return block.require_string("text");
  if (type == "document") return document_text(block, role, images);
  if (type == "search_result") return search_result_text(block, role, images);
  if (type == "image") return image_text(block, role, images);
  return std::nullopt;
}

bool mentions_error(std::string_view text) {
  constexpr std::string_view kWord = "error";
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return !std::ranges::search(text, kWord, same).empty();
}

Message tool_result(FieldReader& block, ImageReader& images) {
  Message result;
  result.role = Role::kTool;
  result.tool_call_id = block.find_string("tool_use_id").value_or("");
  result.content = join(read_texts(block, "content", Role::kTool, images), "\n", images);
  if (block.find_bool("is_error").value_or(false) && !mentions_error(result.content)) {
    result.content.insert(0, "Error: ");
  }
  return result;
}

chat::ToolCall tool_call(FieldReader& block) {
  const Json* input = block.find("input");
  // A client whose call could not be parsed may send the broken text back, on every later turn.
  if (input && !input->is_object() && !input->is_string()) block.refuse_type("input", "an object", *input);
  return {.id = block.find_string("id").value_or(""),
          .name = block.require_string("name"),
          .arguments = chat::read_arguments(input)};
}

std::optional<Role> owner_of(std::string_view type) {
  if (type == "tool_use" || type == "thinking") return Role::kAssistant;
  if (type == "tool_result") return Role::kUser;
  return std::nullopt;
}

void read_block(FieldReader& block, Role role, ImageReader& images, Turn& turn) {
  const std::string type = block.require_string("type");
  if (const auto owner = owner_of(type); owner && *owner != role) {
    const std::string_view name = *owner == Role::kUser ? "user" : "assistant";
    block.refuse_value("type", fmt::format("'{}' blocks belong to messages of the {}", type, name));
  } else if (type == "tool_use") {
    turn.calls.push_back(tool_call(block));
  } else if (type == "thinking") {
    turn.reasoning += block.find_string("thinking").value_or("");
  } else if (type == "tool_result") {
    turn.results.push_back(tool_result(block, images));
  } else if (auto text = text_of(block, type, role, images)) {
    turn.texts.push_back(*std::move(text));
  }
}

// A string, or an array of blocks; nothing when absent.
Turn read_turn(FieldReader& fields, std::string_view name, Role role, ImageReader& images) {
  Turn turn;
  const Json* content = fields.find(name);
  if (!content) return turn;
  if (content->is_string()) {
    turn.texts.push_back(content->get<std::string>());
  } else if (content->is_array()) {
    for (size_t i = 0; i < content->size(); ++i) {
      FieldReader block = fields.element(name, i);
      read_block(block, role, images, turn);
    }
  } else {
    fields.refuse_type(name, "a string or an array of content blocks", *content);
  }
  return turn;
}

// Where only text, and what stands for text, makes sense.
std::vector<std::string> read_texts(FieldReader& fields, std::string_view name, Role role, ImageReader& images) {
  return read_turn(fields, name, role, images).texts;
}

std::optional<Role> read_role(FieldReader& message) {
  const std::string name = message.require_string("role");
  if (name == "user") return Role::kUser;
  if (name == "assistant") return Role::kAssistant;
  if (name == "system" || name == "developer") return Role::kSystem;
  message.refuse_value("role", fmt::format("'{}' is not user, assistant or system", name));
  return std::nullopt;
}

// A system message may end with the turn that it was written for. One without content only carries settings.
bool is_dropped(FieldReader& message, Role role, bool has_later_user) {
  if (role != Role::kSystem) return false;
  return !message.find("content") || (message.find_string("clear_at") == "next_user_message" && has_later_user);
}

void read_message(FieldReader& fields, bool has_later_user, ImageReader& images, std::vector<Message>& messages) {
  const auto role = read_role(fields);
  if (!role || is_dropped(fields, *role, has_later_user)) return;
  if (*role == Role::kUser && !fields.find("content")) fields.refuse_missing("content");
  Turn turn = read_turn(fields, "content", *role, images);
  const bool is_only_results = !turn.results.empty() && turn.texts.empty();
  for (Message& result : turn.results) messages.push_back(std::move(result));
  if (is_only_results) return;
  Message message;
  message.role = *role;
  message.content = join(turn.texts, *role == Role::kAssistant ? "" : "\n", images);
  message.reasoning = std::move(turn.reasoning);
  message.tool_calls = std::move(turn.calls);
  messages.push_back(std::move(message));
}

size_t last_user_message(const Json& messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    if (messages[i].is_object() && messages[i].value("role", Json()) == "user") return i;
  }
  return 0;
}

void read_system(FieldReader& fields, ImageReader& images, std::vector<Message>& messages) {
  std::vector<std::string> texts = read_texts(fields, "system", Role::kSystem, images);
  for (std::string& text : texts) {
    if (text.starts_with(kBillingHeader)) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  }
  std::erase(texts, std::string());
  if (texts.empty()) return;
  Message message;
  message.role = Role::kSystem;
  message.content = fmt::format("{}", fmt::join(texts, "\n\n"));
  messages.push_back(std::move(message));
}

}  // namespace

std::vector<Message> read_anthropic_messages(FieldReader& fields, ImageReader& images) {
  std::vector<Message> messages;
  read_system(fields, images, messages);
  if (!fields.find("messages")) fields.refuse_missing("messages");
  const Json* list = fields.find_array("messages");
  if (!list) return messages;
  if (list->empty()) fields.refuse_value("messages", "at least one message is needed");
  const size_t last_user = last_user_message(*list);
  for (size_t i = 0; i < list->size(); ++i) {
    FieldReader message = fields.element("messages", i);
    read_message(message, i < last_user, images, messages);
  }
  chat::settle_tool_results(messages);
  return messages;
}

// Keys in a fixed order, and cache_control and its like left out: the same tools are always the same prompt.
std::vector<Json> read_anthropic_tools(FieldReader& fields) {
  std::vector<Json> tools;
  const Json* list = fields.find_array("tools");
  for (size_t i = 0; list && i < list->size(); ++i) {
    FieldReader tool = fields.element("tools", i);
    if (tool.find_string("type").value_or("custom") != "custom") continue;
    Json function = {{"name", tool.require_string("name")},
                     {"description", tool.find_string("description").value_or("")}};
    if (const Json* schema = tool.find_object("input_schema")) function["parameters"] = *schema;
    if (tool.find_bool("strict").value_or(false)) function["strict"] = true;
    tools.push_back(chat::function_tool(std::move(function)));
  }
  return tools;
}

}  // namespace tempo9::server
