#include "server/dialects/ollama_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "chat/openai_messages.h"
#include "chat/tool_messages.h"
#include "engine/limits.h"
#include "server/dialects/ollama.h"
#include "server/field_reader.h"
#include "server/limits.h"

namespace tempo9::server {

namespace {

// Spec api 1.6.
SamplingFields ollama_defaults() {
  SamplingFields sampling;
  sampling.temperature = 0.8;
  sampling.top_p = 0.9;
  sampling.top_k = 40;
  return sampling;
}

// Options are errors of a form of their own when their type is wrong.
class OptionReader {
 public:
  explicit OptionReader(FieldReader& fields) : options_(fields.nested("options")) {}

  std::optional<double> number(std::string_view name, NumberRange range) {
    return check(name, "float32", &Json::is_number) ? options_.find_number(name, range) : std::nullopt;
  }
  std::optional<int64_t> integer(std::string_view name, IntegerRange range = {}) {
    return check(name, "integer", &Json::is_number) ? options_.find_integer(name, range) : std::nullopt;
  }
  std::vector<std::string> strings(std::string_view name) {
    const auto is_list = [](const Json& value) { return value.is_array() || value.is_string(); };
    return check(name, "array", is_list) ? options_.find_strings(name, kMaxStopStrings) : std::vector<std::string>();
  }
  void refuse_unsupported(std::string_view name, std::string_view what) { options_.refuse_unsupported(name, what); }

 private:
  template <class IsType>
  bool check(std::string_view name, std::string_view type, IsType is_type) {
    const Json* value = options_.find(name);
    if (!value || std::invoke(is_type, *value)) return true;
    options_.refuse(Error(ErrorCode::kInvalidInput, fmt::format("option \"{}\" must be of type {}", name, type))
                        .with_field(options_.path_of(name))
                        .with_reason("invalid_type"));
    return false;
  }

  FieldReader options_;
};

// Options that only steer how Ollama itself loads and runs a model are not read.
void read_options(FieldReader& fields, ChatRequest& request) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  OptionReader options(fields);
  SamplingFields& sampling = request.sampling;
  sampling.temperature = options.number("temperature", {0, 2});
  sampling.top_p = options.number("top_p", {0, 1});
  sampling.top_k = options.integer("top_k", {-kMaxInt32, kMaxInt32});
  sampling.min_p = options.number("min_p", {0, 1});
  sampling.repetition_penalty = options.number("repeat_penalty", {.min = 0, .includes_min = false});
  sampling.repeat_last_n = options.integer("repeat_last_n", {-1, kMaxInt32});
  sampling.presence_penalty = options.number("presence_penalty", {-2, 2});
  sampling.frequency_penalty = options.number("frequency_penalty", {-2, 2});
  const auto seed = options.integer("seed");
  if (seed && *seed != -1) sampling.seed = seed;
  if (const auto typical_p = options.number("typical_p", {0, 1}); typical_p && *typical_p != 1.0) {
    options.refuse_unsupported("typical_p", "typical sampling");
  }
  request.stop = options.strings("stop");
  // What is not positive means: as long as there is room.
  const auto num_predict = options.integer("num_predict");
  if (num_predict && *num_predict > 0) request.max_tokens = num_predict;
  options.integer("num_ctx");
  request.sampling_defaults = ollama_defaults();
}

// Thinking is on where the model can think, whatever its template does by itself.
void read_think(FieldReader& fields, const App& app, ChatRequest& request) {
  constexpr std::array<std::string_view, 4> kLevels = {"low", "medium", "high", "max"};
  const bool can_think = app.context.chat_format.can_think();
  const Json* think = fields.find("think");
  bool is_on = can_think;
  if (think && think->is_boolean()) {
    is_on = think->get<bool>();
    if (!is_on) request.conversation.reasoning_effort = "none";
  } else if (think && think->is_string()) {
    const std::string level = *think;
    if (std::ranges::find(kLevels, level) == kLevels.end()) {
      fields.refuse_value("think", fmt::format("'{}' is not true, false, low, medium, high or max", level));
    }
    request.conversation.reasoning_effort = level;
    is_on = true;
  } else if (think) {
    fields.refuse_type("think", "a boolean or a string", *think);
  }
  if (think && is_on && !can_think) {
    fields.refuse(Error(ErrorCode::kUnsupported, fmt::format("\"{}\" does not support thinking", request.model))
                      .with_field("think")
                      .with_reason("unsupported_parameter"));
  }
  request.hide_reasoning = think && !is_on;
  if (think || can_think) request.conversation.template_kwargs["enable_thinking"] = is_on;
}

void read_format(FieldReader& fields, ChatRequest& request) {
  const Json* format = fields.find("format");
  if (!format || *format == "") return;
  OutputSchema output{.schema = {{"type", "object"}}, .is_strict = false, .field = "format"};
  if (format->is_object()) {
    output.schema = *format;
  } else if (!format->is_string()) {
    return fields.refuse_type("format", "\"json\" or a JSON schema", *format);
  } else if (*format != "json") {
    return fields.refuse_value("format", fmt::format("'{}' is not json or a JSON schema", format->get<std::string>()));
  }
  request.output_schema = std::move(output);
}

void read_logprobs(FieldReader& fields, ChatRequest& request) {
  request.logprobs = fields.find_bool("logprobs").value_or(false);
  const int64_t top = fields.find_integer("top_logprobs").value_or(0);
  if (top < 0 || top > engine::kMaxTopLogprobs) {
    fields.refuse(
        Error(ErrorCode::kInvalidInput, fmt::format("top_logprobs must be between 0 and {}", engine::kMaxTopLogprobs))
            .with_field("top_logprobs")
            .with_reason("invalid_value"));
    return;
  }
  request.top_logprobs = static_cast<int32_t>(top);
}

// The model is always there; what is asked is only checked. Nothing when it is absent.
std::optional<double> read_keep_alive(FieldReader& fields) {
  const Json* value = fields.find("keep_alive");
  if (!value) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  if (!value->is_string()) {
    fields.refuse_type("keep_alive", "a number or a duration", *value);
    return std::nullopt;
  }
  const auto seconds = parse_go_duration(value->get_ref<const std::string&>());
  if (!seconds) {
    fields.refuse_value("keep_alive", fmt::format("'{}' is not a duration", value->get<std::string>()));
  }
  return seconds;
}

Residency residency_of(std::optional<double> keep_alive) {
  return keep_alive == 0.0 ? Residency::kUnload : Residency::kLoad;
}

// What both routes take.
void read_common(FieldReader& fields, const App& app, ChatRequest& request) {
  request.model = fields.find_string("model").value_or(app.context.model.name);
  request.stream = fields.find_bool("stream").value_or(true);
  read_options(fields, request);
  read_think(fields, app, request);
  read_format(fields, request);
  read_logprobs(fields, request);
}

// What stands for the images, one after another.
std::string read_images(FieldReader& fields, chat::ImageReader::Place place, chat::ImageReader& images) {
  std::string text;
  const Json* list = fields.find_array("images");
  for (size_t i = 0; list && i < list->size(); ++i) {
    const Json& image = (*list)[i];
    if (!image.is_string()) {
      fields.refuse_type(fmt::format("images[{}]", i), "a string of base64", image);
      break;
    }
    auto mark = images.read_base64(image.get_ref<const std::string&>(), place, fields.path_of("images"));
    if (!mark) {
      fields.refuse(std::move(mark).error());
      break;
    }
    text += *mark;
  }
  return text;
}

// Images come before the message's text, those of a tool's result behind it; `content` is a string or parts.
void add_images(FieldReader& message, bool is_result, Json& content, chat::ImageReader& images) {
  using Place = chat::ImageReader::Place;
  const std::string marks = read_images(message, is_result ? Place::kToolResult : Place::kMessage, images);
  if (marks.empty()) return;
  if (content.is_string()) {
    std::string& text = content.get_ref<std::string&>();
    text.insert(is_result ? text.size() : 0, marks);
  } else if (content.is_array()) {
    content.insert(is_result ? content.end() : content.begin(), Json{{"type", "text"}, {"text", marks}});
  }
}

// Ollama's messages are those of OpenAI's API under other names.
Json openai_message(FieldReader& message, chat::ImageReader& images) {
  std::string role = message.require_string("role");
  std::ranges::transform(role, role.begin(), [](unsigned char c) { return std::tolower(c); });
  const Json* content = message.find("content");
  Json renamed = {{"role", role}, {"content", content ? *content : Json("")}};
  add_images(message, role == "tool", renamed["content"], images);
  if (const auto thinking = message.find_string("thinking")) renamed["reasoning_content"] = *thinking;
  if (const Json* calls = message.find_array("tool_calls")) renamed["tool_calls"] = *calls;
  if (const auto name = message.find_string("tool_name")) renamed["name"] = *name;
  if (const auto id = message.find_string("tool_call_id")) renamed["tool_call_id"] = *id;
  return renamed;
}

Json openai_messages(FieldReader& fields, chat::ImageReader& images) {
  Json messages = Json::array();
  const Json* list = fields.find_array("messages");
  for (size_t i = 0; list && i < list->size(); ++i) {
    FieldReader message = fields.element("messages", i);
    messages.push_back(openai_message(message, images));
  }
  return messages;
}

// A tool without a type is a function.
Json openai_tools(FieldReader& fields) {
  const Json* list = fields.find_array("tools");
  Json tools = list ? *list : Json::array();
  for (Json& tool : tools) {
    if (tool.is_object() && tool.value("type", Json("")) == "") tool["type"] = "function";
  }
  return tools;
}

// A mistake that would look like an empty answer.
void refuse_other_routes_field(FieldReader& fields, std::string_view name, std::string_view owner) {
  const Json* value = fields.find(name);
  if (!value || value->empty() || *value == "") return;
  fields.refuse_value(name, fmt::format("it belongs to {}", owner));
}

std::vector<int32_t> read_context(FieldReader& fields) {
  std::vector<int32_t> ids;
  const Json* list = fields.find_array("context");
  if (!list) return ids;
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& value = (*list)[i];
    const std::string item = fmt::format("context[{}]", i);
    if (!value.is_number_integer()) {
      fields.refuse_type(item, "a token id", value);
      break;
    }
    const auto id = value.get<int64_t>();
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      fields.refuse_value(item, fmt::format("{} is no token id", id));
      break;
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

void refuse_what_generate_lacks(FieldReader& fields, const ChatRequest& request) {
  if (!fields.find_string("template").value_or("").empty()) {
    fields.refuse(Error(ErrorCode::kUnsupported, "template override is not supported")
                      .with_field("template")
                      .with_reason("unsupported_parameter"));
  }
  if (!fields.find_string("suffix").value_or("").empty()) {
    fields.refuse(Error(ErrorCode::kUnsupported, fmt::format("\"{}\" does not support insert", request.model))
                      .with_field("suffix")
                      .with_reason("unsupported_parameter"));
  }
}

// The prompt goes to the model as it is.
void read_raw(FieldReader& fields, std::string prompt, ChatRequest& request) {
  const Json* context = fields.find_array("context");
  const bool has_text =
      !fields.find_string("system").value_or("").empty() || !fields.find_string("template").value_or("").empty();
  if (has_text || (context && !context->empty())) {
    fields.refuse(Error(ErrorCode::kInvalidInput, "raw mode does not support template, system, or context")
                      .with_field("raw")
                      .with_reason("invalid_value"));
  }
  request.raw_prompts.push_back({.ids = {}, .text = std::move(prompt)});
}

void add_message(chat::Role role, std::string content, chat::Conversation& conversation) {
  chat::Message message;
  message.role = role;
  message.content = std::move(content);
  conversation.messages.push_back(std::move(message));
}

struct Unit {
  std::string_view name;
  double seconds;
};
// Longer names first where one begins like another.
constexpr std::array<Unit, 8> kUnits = {
    {{"ns", 1e-9}, {"us", 1e-6}, {"\u00b5s", 1e-6}, {"\u03bcs", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}}};

}  // namespace

std::optional<double> parse_go_duration(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double seconds = 0.0;
  for (bool is_first = true; !text.empty(); is_first = false) {
    double value = 0.0;
    if (!std::isdigit(static_cast<unsigned char>(text.front())) && text.front() != '.') return std::nullopt;
    const auto [end, problem] =
        std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (problem != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty() && is_first) return is_negative ? -value : value;  // seconds
    const auto unit = std::ranges::find_if(kUnits, [&](const Unit& u) { return text.starts_with(u.name); });
    if (unit == kUnits.end()) return std::nullopt;
    text.remove_prefix(unit->name.size());
    seconds += value * unit->seconds;
  }
  return is_negative ? -seconds : seconds;
}

Result<ChatRequest> parse_ollama_chat(std::string body, const App& app) {
  T9_TRY(document, parse_ollama_object(std::move(body)));
  FieldReader fields(document);
  ChatRequest request;
  read_common(fields, app, request);
  request.drops_oldest = fields.find_bool("truncate").value_or(false);
  const auto keep_alive = read_keep_alive(fields);
  chat::ImageReader images = make_image_reader(app);
  const Json messages = openai_messages(fields, images);
  const Json tools = openai_tools(fields);
  if (messages.empty()) refuse_other_routes_field(fields, "prompt", "/api/generate; /api/chat takes 'messages'");
  T9_TRY_VOID(fields.result());
  if (messages.empty()) {
    request.residency = residency_of(keep_alive);
    return request;
  }
  T9_TRY(parsed_messages, chat::parse_openai_messages(messages, images));
  T9_TRY(parsed_tools, chat::parse_openai_tools(tools));
  request.conversation.messages = std::move(parsed_messages);
  request.conversation.images = images.take();
  request.conversation.tools = std::move(parsed_tools);
  return request;
}

Result<ChatRequest> parse_ollama_generate(std::string body, const App& app) {
  T9_TRY(document, parse_ollama_object(std::move(body)));
  FieldReader fields(document);
  ChatRequest request;
  read_common(fields, app, request);
  const auto keep_alive = read_keep_alive(fields);
  const bool is_raw = fields.find_bool("raw").value_or(false);
  std::string prompt = fields.find_string("prompt").value_or("");
  std::string system = fields.find_string("system").value_or("");
  chat::ImageReader images = make_image_reader(app);
  const std::string marks = read_images(fields, chat::ImageReader::Place::kMessage, images);
  if (is_raw && !marks.empty()) fields.refuse_value("images", "raw mode does not take images");
  if (prompt.empty()) refuse_other_routes_field(fields, "messages", "/api/chat; /api/generate takes 'prompt'");
  if (prompt.empty() && marks.empty()) {
    request.residency = residency_of(keep_alive);
  } else if (is_raw) {
    read_raw(fields, std::move(prompt), request);
  } else {
    if (!system.empty()) add_message(chat::Role::kSystem, std::move(system), request.conversation);
    add_message(chat::Role::kUser, marks + prompt, request.conversation);
    request.conversation.images = images.take();
    request.context = read_context(fields);
  }
  refuse_what_generate_lacks(fields, request);
  T9_TRY_VOID(fields.result());
  return request;
}

}  // namespace tempo9::server
