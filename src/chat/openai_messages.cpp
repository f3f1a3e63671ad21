#include "chat/openai_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "chat/tool_messages.h"

namespace tempo9::chat {
namespace {

std::string_view type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

std::unexpected<Error> wrong_type(const std::string& path, std::string_view expected, const Json& value) {
  return fail(Error(ErrorCode::kInvalidInput,
                    fmt::format("Invalid type for '{}': expected {}, got {}.", path, expected, type_name(value)))
                  .with_field(path)
                  .with_reason("invalid_type"));
}

std::unexpected<Error> missing(const std::string& path) {
  return fail(Error(ErrorCode::kInvalidInput, fmt::format("Missing required parameter: '{}'.", path))
                  .with_field(path)
                  .with_reason("missing_required_parameter"));
}

std::unexpected<Error> wrong_value(const std::string& path, std::string message) {
  return fail(Error(ErrorCode::kInvalidInput, std::move(message)).with_field(path).with_reason("invalid_value"));
}

std::unexpected<Error> unsupported_content(const std::string& path, std::string message) {
  return fail(Error(ErrorCode::kInvalidInput, std::move(message)).with_field(path).with_reason("unsupported_content"));
}

// The member of an object; null when it is absent or JSON null. REQUIRES: `object` is an object.
const Json* find_member(const Json& object, const char* key) {
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// Empty when absent.
Result<std::string> optional_string(const Json& object, const char* key, const std::string& path) {
  const Json* value = find_member(object, key);
  if (!value) return std::string();
  if (!value->is_string()) return wrong_type(path + "." + key, "a string", *value);
  return value->get<std::string>();
}

Result<std::string> required_string(const Json& object, const char* key, const std::string& path) {
  if (!find_member(object, key)) return missing(path + "." + key);
  return optional_string(object, key, path);
}

// What stands for an image: {"image_url": {"url"}}, or the URL alone. `detail` does not matter: an image has the size
// that its tower gives it.
Result<std::string> image_text(const Json& part, Role role, const std::string& path, ImageReader& images) {
  const auto place = role == Role::kTool ? ImageReader::Place::kToolResult : ImageReader::Place::kMessage;
  if (find_member(part, "file_id")) return images.refuse("file ids", place, path);
  const Json* url = find_member(part, "image_url");
  if (!url) return images.read_url("", place, path);
  if (url->is_string()) return images.read_url(url->get_ref<const std::string&>(), place, path);
  if (!url->is_object()) return wrong_type(path + ".image_url", "a string or an object", *url);
  T9_TRY(text, required_string(*url, "url", path + ".image_url"));
  return images.read_url(text, place, path);
}

// Text of one content part of a message of `role`.
Result<std::string> part_text(const Json& part, Role role, const std::string& path, ImageReader& images) {
  if (!part.is_object()) return wrong_type(path, "an object", part);
  T9_TRY(type, required_string(part, "type", path));
  if (type == "text" || type == "input_text" || type == "output_text") return required_string(part, "text", path);
  if (type == "refusal") return required_string(part, "refusal", path);
  if (type == "image_url" || type == "input_image") return image_text(part, role, path, images);
  if (type == "input_audio" || type == "file" || type == "input_file")
    return unsupported_content(path, fmt::format("content parts of type '{}' are not supported", type));
  return wrong_value(path + ".type", fmt::format("Invalid value for '{}.type': '{}'.", path, type));
}

// A string, or parts whose texts are joined without a separator.
Result<std::string> content_text(const Json& content, Role role, const std::string& path, ImageReader& images) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return wrong_type(path, "a string or an array of content parts", content);
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    T9_TRY(piece, part_text(content[i], role, fmt::format("{}[{}]", path, i), images));
    text += piece;
  }
  return text;
}

bool is_text_parts(const Json& content) {
  return content.is_array() &&
         std::ranges::all_of(content, [](const Json& part) { return part.value("type", "") == "text"; });
}

Result<ToolCall> parse_function(const Json& function, const std::string& path) {
  if (!function.is_object()) return wrong_type(path, "an object", function);
  ToolCall call;
  T9_TRY(name, required_string(function, "name", path));
  call.name = std::move(name);
  const Json* arguments = find_member(function, "arguments");
  if (arguments && !arguments->is_string() && !arguments->is_object())
    return wrong_type(path + ".arguments", "a string", *arguments);
  call.arguments = read_arguments(arguments);
  return call;
}

// {"id", "type":"function", "function":{…}}, or "type":"custom" with {"custom":{"name","input"}}.
Result<ToolCall> parse_tool_call(const Json& item, const std::string& path) {
  if (!item.is_object()) return wrong_type(path, "an object", item);
  T9_TRY(id, optional_string(item, "id", path));
  ToolCall call;
  if (const Json* custom = find_member(item, "custom")) {
    if (!custom->is_object()) return wrong_type(path + ".custom", "an object", *custom);
    T9_TRY(name, required_string(*custom, "name", path + ".custom"));
    T9_TRY(input, optional_string(*custom, "input", path + ".custom"));
    call.name = std::move(name);
    call.arguments = Json{{"input", std::move(input)}};
  } else {
    const Json* function = find_member(item, "function");
    if (!function) return missing(path + ".function");
    T9_TRY(parsed, parse_function(*function, path + ".function"));
    call = std::move(parsed);
  }
  call.id = std::move(id);
  return call;
}

Result<void> read_assistant_fields(const Json& item, const std::string& path, Message& message) {
  T9_TRY(refusal, optional_string(item, "refusal", path));
  message.content += refusal;
  T9_TRY(reasoning, optional_string(item, "reasoning_content", path));
  message.reasoning = std::move(reasoning);
  if (message.reasoning.empty()) {
    T9_TRY(other, optional_string(item, "reasoning", path));
    message.reasoning = std::move(other);
  }
  if (const Json* calls = find_member(item, "tool_calls")) {
    if (!calls->is_array()) return wrong_type(path + ".tool_calls", "an array", *calls);
    for (size_t i = 0; i < calls->size(); ++i) {
      T9_TRY(call, parse_tool_call((*calls)[i], fmt::format("{}.tool_calls[{}]", path, i)));
      message.tool_calls.push_back(std::move(call));
    }
  }
  const Json* legacy = find_member(item, "function_call");
  if (legacy && message.tool_calls.empty()) {
    T9_TRY(call, parse_function(*legacy, path + ".function_call"));
    message.tool_calls.push_back(std::move(call));
  }
  return {};
}

Result<Role> parse_role(const std::string& role, const std::string& path) {
  if (role == "system" || role == "developer") return Role::kSystem;
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "tool" || role == "function") return Role::kTool;
  return wrong_value(path, fmt::format("Invalid value for '{}': '{}'. Supported values are: 'system', 'developer', "
                                       "'user', 'assistant', 'tool' and 'function'.",
                                       path, role));
}

Result<Message> parse_message(const Json& item, const std::string& path, ImageReader& images) {
  if (!item.is_object()) return wrong_type(path, "an object", item);
  Message message;
  T9_TRY(role_name, required_string(item, "role", path));
  T9_TRY(role, parse_role(role_name, path + ".role"));
  message.role = role;
  T9_TRY(name, optional_string(item, "name", path));
  message.name = std::move(name);
  auto content = item.find("content");
  if (content != item.end() && !content->is_null()) {
    T9_TRY(text, content_text(*content, role, path + ".content", images));
    message.content = std::move(text);
    if (is_text_parts(*content)) message.parts = *content;
  }
  if (role == Role::kAssistant) T9_TRY_VOID(read_assistant_fields(item, path, message));
  if (role == Role::kTool) {
    T9_TRY(id, optional_string(item, "tool_call_id", path));
    message.tool_call_id = std::move(id);
  }
  const bool has_content = content != item.end();
  if (!has_content && role != Role::kAssistant) return missing(path + ".content");
  if (!has_content && message.tool_calls.empty() && message.content.empty() && message.reasoning.empty())
    return missing(path + ".content");
  return message;
}

Result<void> check_function(const Json& function, const std::string& path) {
  if (!function.is_object()) return wrong_type(path, "an object", function);
  T9_TRY_VOID(required_string(function, "name", path));
  T9_TRY_VOID(optional_string(function, "description", path));
  const Json* parameters = find_member(function, "parameters");
  if (parameters && !parameters->is_object()) return wrong_type(path + ".parameters", "an object", *parameters);
  return {};
}

// A free-form tool is offered as a function with one string.
Result<Json> function_of_custom_tool(const Json& custom, const std::string& path) {
  if (!custom.is_object()) return wrong_type(path, "an object", custom);
  T9_TRY(name, required_string(custom, "name", path));
  T9_TRY(description, optional_string(custom, "description", path));
  return Json{
      {"name", name},
      {"description", description},
      {"parameters", {{"type", "object"}, {"properties", {{"input", {{"type", "string"}}}}}, {"required", {"input"}}}}};
}

Result<std::vector<Json>> parse_legacy_functions(const Json& functions) {
  if (!functions.is_array()) return wrong_type("functions", "an array", functions);
  std::vector<Json> tools;
  for (size_t i = 0; i < functions.size(); ++i) {
    T9_TRY_VOID(check_function(functions[i], fmt::format("functions[{}]", i)));
    tools.push_back(function_tool(functions[i]));
  }
  return tools;
}

Result<std::optional<bool>> optional_bool(const Json& body, const char* key) {
  const Json* value = find_member(body, key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) return wrong_type(key, "a boolean", *value);
  return value->get<bool>();
}

constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};

Result<std::string> parse_effort(const Json& object, const char* key, const std::string& path) {
  const Json* effort = find_member(object, key);
  if (!effort) return std::string();
  if (!effort->is_string()) return wrong_type(path, "a string", *effort);
  const std::string name = *effort;
  if (std::ranges::find(kEfforts, name) != std::end(kEfforts)) return name;
  return wrong_value(path, fmt::format("Invalid value for '{}': '{}'. Supported values are: '{}'.", path, name,
                                       fmt::join(kEfforts, "', '")));
}

// Whether thinking is on or off, and how much of it, as far as the client said.
struct Thinking {
  std::optional<bool> is_on;
  std::string effort;
};

// enable_thinking wins over reasoning_effort, which wins over the same in the object `reasoning`.
Result<Thinking> parse_thinking(const Json& body) {
  Thinking thinking;
  T9_TRY(effort, parse_effort(body, "reasoning_effort", "reasoning_effort"));
  thinking.effort = std::move(effort);
  if (const Json* reasoning = find_member(body, "reasoning")) {
    if (!reasoning->is_object()) return wrong_type("reasoning", "an object", *reasoning);
    T9_TRY(other, parse_effort(*reasoning, "effort", "reasoning.effort"));
    if (thinking.effort.empty()) thinking.effort = std::move(other);
    const Json* enabled = find_member(*reasoning, "enabled");
    if (enabled && !enabled->is_boolean()) return wrong_type("reasoning.enabled", "a boolean", *enabled);
    if (enabled) thinking.is_on = enabled->get<bool>();
  }
  if (!thinking.effort.empty()) thinking.is_on = thinking.effort != "none";
  T9_TRY(enable_thinking, optional_bool(body, "enable_thinking"));
  if (enable_thinking) thinking.is_on = enable_thinking;
  return thinking;
}

}  // namespace

Result<std::vector<Message>> parse_openai_messages(const Json& messages, ImageReader& images) {
  if (!messages.is_array()) return wrong_type("messages", "an array", messages);
  if (messages.empty()) return wrong_value("messages", "Invalid 'messages': at least one message is needed.");
  std::vector<Message> parsed;
  parsed.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    T9_TRY(message, parse_message(messages[i], fmt::format("messages[{}]", i), images));
    parsed.push_back(std::move(message));
  }
  settle_tool_results(parsed);
  return parsed;
}

Result<std::vector<Message>> parse_openai_messages(const Json& messages) {
  ImageReader none(/*can_see=*/false, 0);
  return parse_openai_messages(messages, none);
}

Result<Conversation> parse_openai_conversation(const Json& body) {
  ImageReader none(/*can_see=*/false, 0);
  return parse_openai_conversation(body, none);
}

Result<std::vector<Json>> parse_openai_tools(const Json& tools) {
  if (!tools.is_array()) return wrong_type("tools", "an array", tools);
  std::vector<Json> parsed;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    if (!tools[i].is_object()) return wrong_type(path, "an object", tools[i]);
    T9_TRY(type, required_string(tools[i], "type", path));
    if (type != "function" && type != "custom") continue;
    const Json* definition = find_member(tools[i], type.c_str());
    if (!definition) return missing(path + "." + type);
    if (type == "function") {
      T9_TRY_VOID(check_function(*definition, path + ".function"));
      parsed.push_back(function_tool(*definition));
    } else {
      T9_TRY(function, function_of_custom_tool(*definition, path + ".custom"));
      parsed.push_back(function_tool(std::move(function)));
    }
  }
  return parsed;
}

Result<void> read_template_kwargs(const Json& body, Conversation& conversation) {
  Json kwargs = Json::object();
  if (const Json* given = find_member(body, "chat_template_kwargs")) {
    if (!given->is_object()) return wrong_type("chat_template_kwargs", "an object", *given);
    kwargs = *given;
  }
  T9_TRY(thinking, parse_thinking(body));
  if (thinking.is_on && !kwargs.contains("enable_thinking")) kwargs["enable_thinking"] = *thinking.is_on;
  conversation.template_kwargs = std::move(kwargs);
  conversation.reasoning_effort = std::move(thinking.effort);
  return {};
}

Result<Conversation> parse_openai_conversation(const Json& body, ImageReader& images) {
  if (!body.is_object()) return wrong_type("body", "an object", body);
  Conversation conversation;
  const Json* messages = find_member(body, "messages");
  if (!messages) return missing("messages");
  T9_TRY(parsed, parse_openai_messages(*messages, images));
  conversation.messages = std::move(parsed);
  conversation.images = images.take();
  if (const Json* tools = find_member(body, "tools")) {
    T9_TRY(parsed_tools, parse_openai_tools(*tools));
    conversation.tools = std::move(parsed_tools);
  } else if (const Json* functions = find_member(body, "functions")) {
    T9_TRY(parsed_tools, parse_legacy_functions(*functions));
    conversation.tools = std::move(parsed_tools);
  }
  T9_TRY(add_generation_prompt, optional_bool(body, "add_generation_prompt"));
  conversation.add_generation_prompt = add_generation_prompt.value_or(true);
  T9_TRY_VOID(read_template_kwargs(body, conversation));
  return conversation;
}

}  // namespace tempo9::chat
