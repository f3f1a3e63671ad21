#include "server/dialects/openai_responses_items.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <optional>
#include <utility>

#include "base/base64.h"
#include "chat/tool_messages.h"

namespace tempo9::server {

namespace {

using chat::ImageReader;
using chat::Message;
using chat::Role;

constexpr std::string_view kSeal = "t9:";

void append_paragraph(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += "\n\n";
  text += more;
}

void refuse_part(FieldReader& part, std::string message) {
  part.refuse(Error(ErrorCode::kInvalidInput, std::move(message))
                  .with_field(part.path_of("type"))
                  .with_reason("unsupported_content"));
}

// What stands for an image. `detail` does not matter: an image has the size that its tower gives it.
std::string image_text(FieldReader& part, ImageReader::Place place, ImageReader& images) {
  const std::string field = part.path_of("type");
  const Json* url = part.find("image_url");
  if (url && !url->is_string() && !url->is_object()) part.refuse_type("image_url", "a string", *url);
  std::string text;
  if (url && url->is_string()) text = url->get<std::string>();
  if (url && url->is_object()) text = part.nested("image_url").find_string("url").value_or("");
  auto mark = part.find("file_id") ? images.refuse("file ids", place, field) : images.read_url(text, place, field);
  if (mark) return *std::move(mark);
  part.refuse(std::move(mark).error());
  return {};
}

// Nothing for a kind of part that is not known.
std::optional<std::string> find_part_text(FieldReader& part, std::string_view type, ImageReader::Place place,
                                          ImageReader& images) {
  if (type == "input_text" || type == "output_text" || type == "text" || type == "summary_text" ||
      type == "reasoning_text") {
    return part.require_string("text");
  }
  if (type == "refusal") return part.require_string("refusal");
  if (type == "input_image") return image_text(part, place, images);
  if (type == "input_file" || type == "input_audio") {
    refuse_part(part, fmt::format("content parts of type '{}' are not supported", type));
    return "";
  }
  return std::nullopt;
}

// A string, or parts whose texts are joined without a separator; empty when absent.
std::string read_content(FieldReader& fields, std::string_view name, ImageReader& images) {
  const Json* content = fields.find(name);
  if (!content) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    fields.refuse_type(name, "a string or an array of content parts", *content);
    return {};
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    FieldReader part = fields.element(name, i);
    const std::string type = part.require_string("type");
    const auto piece = find_part_text(part, type, ImageReader::Place::kMessage, images);
    if (!piece && !type.empty()) part.refuse_value("type", fmt::format("'{}' is no kind of content", type));
    text += piece.value_or("");
  }
  return text;
}

// The texts of parts that are paragraphs of their own.
std::string read_paragraphs(FieldReader& fields, std::string_view name) {
  std::string text;
  const Json* parts = fields.find_array(name);
  for (size_t i = 0; parts && i < parts->size(); ++i) {
    append_paragraph(text, fields.element(name, i).find_string("text").value_or(""));
  }
  return text;
}

// What a tool returned: text, parts, or for the tools of OpenAI's own shape anything, which the model then sees as
// JSON.
std::string read_output(FieldReader& item, ImageReader& images) {
  const Json* output = item.find("output");
  if (!output) return {};
  if (output->is_string()) return output->get<std::string>();
  if (!output->is_array()) return dump_json(*output);
  std::string text;
  for (size_t i = 0; i < output->size(); ++i) {
    FieldReader part = item.element("output", i);
    const std::string type = part.find_string("type").value_or("");
    const auto piece = find_part_text(part, type, ImageReader::Place::kToolResult, images);
    text += piece ? *piece : dump_json((*output)[i]);
  }
  return text;
}

std::optional<std::string> open_seal(std::string_view sealed) {
  const auto text = decode_base64(sealed);
  if (!text || !text->starts_with(kSeal)) return std::nullopt;
  return text->substr(kSeal.size());
}

// The whole of it if it is ours, else what the client was shown.
std::string read_reasoning(FieldReader& item) {
  const Json* sealed = item.find("encrypted_content");
  if (sealed && sealed->is_string()) {
    if (auto text = open_seal(sealed->get_ref<const std::string&>())) return *std::move(text);
  }
  std::string text = read_paragraphs(item, "content");
  return text.empty() ? read_paragraphs(item, "summary") : text;
}

class ItemReader {
 public:
  ItemReader(ResponsesTools& tools, ImageReader& images, std::vector<Message>& messages)
      : tools_(tools), images_(images), messages_(messages) {}

  void read(FieldReader& item) {
    const bool is_message = !item.find("type") && item.find("role");
    const std::string type = is_message ? "message" : item.require_string("type");
    for (const Kind& kind : kKinds) {
      if (kind.type == type) return (this->*kind.read)(item);
    }
    if (!type.empty()) spdlog::info("event=item_left_out type=\"{}\"", type);
  }

 private:
  struct Kind {
    std::string_view type;
    void (ItemReader::*read)(FieldReader& item);
  };
  static const std::array<Kind, 15> kKinds;

  void read_message(FieldReader& item) {
    const auto role = read_role(item);
    if (!role) return;
    if (*role == Role::kAssistant) {
      append_paragraph(turn().content, read_content(item, "content", images_));
      return;
    }
    if (!item.find("content")) item.refuse_missing("content");
    Message message;
    message.role = *role;
    message.content = read_content(item, "content", images_);
    messages_.push_back(std::move(message));
  }

  static std::optional<Role> read_role(FieldReader& item) {
    const std::string name = item.require_string("role");
    if (name == "user") return Role::kUser;
    if (name == "assistant") return Role::kAssistant;
    if (name == "system" || name == "developer") return Role::kSystem;
    if (!name.empty()) item.refuse_value("role", fmt::format("'{}' is not user, assistant, system or developer", name));
    return std::nullopt;
  }

  void read_reasoning_item(FieldReader& item) {
    // Of a thought that says nothing there is nothing to show, and no turn begins with it.
    if (const std::string text = read_reasoning(item); !text.empty()) append_paragraph(turn().reasoning, text);
  }

  void read_function_call(FieldReader& item) {
    const Json* arguments = item.find("arguments");
    if (arguments && !arguments->is_string() && !arguments->is_object()) {
      item.refuse_type("arguments", "a string", *arguments);
    }
    add_call(item, called_name(item), chat::read_arguments(arguments));
  }

  void read_custom_call(FieldReader& item) {
    add_call(item, called_name(item), {{"input", item.find_string("input").value_or("")}});
  }

  static std::string called_name(FieldReader& item) {
    return flat_tool_name(item.find_string("namespace").value_or(""), item.require_string("name"));
  }

  void read_local_shell_call(FieldReader& item) { add_call_of(item, "local_shell", "action"); }
  void read_shell_call(FieldReader& item) { add_call_of(item, "shell", "action"); }
  void read_apply_patch_call(FieldReader& item) { add_call_of(item, "apply_patch", "operation"); }

  void add_call_of(FieldReader& item, std::string name, std::string_view field) {
    const Json* action = item.find_object(field);
    add_call(item, std::move(name), action ? *action : Json::object());
  }

  void add_call(FieldReader& item, std::string name, Json arguments) {
    turn().tool_calls.push_back({.id = call_id(item), .name = std::move(name), .arguments = std::move(arguments)});
  }

  void read_result(FieldReader& item) {
    Message result;
    result.role = Role::kTool;
    result.tool_call_id = call_id(item);
    result.content = read_output(item, images_);
    messages_.push_back(std::move(result));
  }

  static std::string call_id(FieldReader& item) {
    const auto id = item.find_string("call_id");
    return id ? *id : item.find_string("id").value_or("");
  }

  void read_tools(FieldReader& item) { tools_.read(item, "tools"); }

  // The message of the assistant that is being said.
  Message& turn() {
    if (messages_.empty() || messages_.back().role != Role::kAssistant) {
      messages_.emplace_back();
      messages_.back().role = Role::kAssistant;
    }
    return messages_.back();
  }

  ResponsesTools& tools_;
  ImageReader& images_;
  std::vector<Message>& messages_;
};

const std::array<ItemReader::Kind, 15> ItemReader::kKinds = {{
    {"message", &ItemReader::read_message},
    {"reasoning", &ItemReader::read_reasoning_item},
    {"function_call", &ItemReader::read_function_call},
    {"custom_tool_call", &ItemReader::read_custom_call},
    {"local_shell_call", &ItemReader::read_local_shell_call},
    {"shell_call", &ItemReader::read_shell_call},
    {"apply_patch_call", &ItemReader::read_apply_patch_call},
    {"function_call_output", &ItemReader::read_result},
    {"custom_tool_call_output", &ItemReader::read_result},
    {"local_shell_call_output", &ItemReader::read_result},
    {"shell_call_output", &ItemReader::read_result},
    {"apply_patch_call_output", &ItemReader::read_result},
    {"additional_tools", &ItemReader::read_tools},
    {"tool_search_call", &ItemReader::read_tools},
    {"tool_search_output", &ItemReader::read_tools},
}};

}  // namespace

std::string seal_reasoning(std::string_view text) { return encode_base64(std::string(kSeal) + std::string(text)); }

void read_responses_items(FieldReader& fields, std::string_view name, ResponsesTools& tools, ImageReader& images,
                          std::vector<Message>& messages) {
  const Json* input = fields.find(name);
  if (!input) return;
  if (input->is_string()) {
    Message message;
    message.content = input->get<std::string>();
    messages.push_back(std::move(message));
    return;
  }
  if (!input->is_array()) return fields.refuse_type(name, "a string or an array of items", *input);
  ItemReader reader(tools, images, messages);
  for (size_t i = 0; i < input->size(); ++i) {
    FieldReader item = fields.element(name, i);
    reader.read(item);
  }
}

}  // namespace tempo9::server
