#include "server/dialects/anthropic_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>

#include "server/dialects/anthropic_conversation.h"
#include "server/field_reader.h"
#include "server/limits.h"

namespace tempo9::server {

namespace {

SamplingFields read_sampling(FieldReader& fields) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  SamplingFields sampling;
  sampling.temperature = fields.find_number("temperature", {0, 2});
  sampling.top_p = fields.find_number("top_p", {0, 1});
  sampling.top_k = fields.find_integer("top_k", {-kMaxInt32, kMaxInt32});
  return sampling;
}

// Off unless it is asked for.
void read_thinking(FieldReader& fields, ChatRequest& request) {
  bool is_on = false;
  if (fields.find("thinking")) {
    FieldReader thinking = fields.nested("thinking");
    const std::string type = thinking.require_string("type");
    is_on = type == "enabled" || type == "adaptive" || type == "between_tools";
    if (!is_on && type != "disabled") {
      thinking.refuse_value("type", fmt::format("'{}' is not disabled, enabled, adaptive or between_tools", type));
    }
    const auto budget = thinking.find_integer("budget_tokens", {.min = 1});
    if (type == "enabled") request.max_reasoning_tokens = budget;
    request.omit_reasoning_text = thinking.find_string("display") == "omitted";
  }
  request.hide_reasoning = !is_on;
  request.conversation.template_kwargs["enable_thinking"] = is_on;
}

// `format`, or `output_format` as an older beta has it: {"type":"json_schema","schema":{…}}.
void read_format(FieldReader& fields, std::string_view name, ChatRequest& request) {
  if (!fields.find(name)) return;
  FieldReader format = fields.nested(name);
  const std::string type = format.require_string("type");
  if (type != "json_schema") format.refuse_value("type", fmt::format("'{}' is not json_schema", type));
  const Json* schema = format.find_object("schema");
  if (!schema) return format.refuse_missing("schema");
  request.output_schema = OutputSchema{.schema = *schema, .is_strict = false, .field = fields.path_of(name)};
}

// The effort is that of thinking which is on; clients send it without thinking as well.
void read_output_config(FieldReader& fields, ChatRequest& request) {
  constexpr std::string_view kEfforts[] = {"low", "medium", "high", "xhigh", "max"};
  FieldReader config = fields.nested("output_config");
  if (const auto effort = config.find_string("effort")) {
    if (std::ranges::find(kEfforts, *effort) == std::end(kEfforts)) {
      config.refuse_value("effort", fmt::format("'{}' is not low, medium, high, xhigh or max", *effort));
    }
    if (!request.hide_reasoning) request.conversation.reasoning_effort = *effort;
  }
  read_format(fields, "output_format", request);
  read_format(config, "format", request);
}

bool has_tool(const chat::Conversation& conversation, std::string_view name) {
  return std::ranges::any_of(conversation.tools, [&](const Json& tool) { return tool["function"]["name"] == name; });
}

// "none" leaves the tools out of the prompt; a forced call keeps all of them there, for the prefix cache.
void read_tool_choice(FieldReader& fields, ChatRequest& request) {
  if (!fields.find("tool_choice")) return;
  FieldReader choice = fields.nested("tool_choice");
  request.parallel_tool_calls = !choice.find_bool("disable_parallel_tool_use").value_or(false);
  const std::string type = choice.require_string("type");
  if (type == "none") {
    request.conversation.tools.clear();
  } else if (type == "tool") {
    const std::string name = choice.require_string("name");
    if (!has_tool(request.conversation, name)) {
      choice.refuse_value("name", fmt::format("there is no tool named '{}'", name));
    }
    request.requires_call = true;
    request.forced_tool = name;
  } else if (type == "any") {
    if (request.conversation.tools.empty()) choice.refuse_value("type", "there are no tools to call");
    request.requires_call = true;
  } else if (type != "auto") {
    choice.refuse_value("type", fmt::format("'{}' is not auto, any, tool or none", type));
  }
}

// A last message of the assistant is the beginning of the answer.
void read_prefill(FieldReader& fields, ChatRequest& request) {
  const chat::Conversation& conversation = request.conversation;
  if (conversation.messages.empty() || conversation.messages.back().role != chat::Role::kAssistant) return;
  request.conversation.continues_last = true;
  const std::string last = fmt::format("messages[{}]", fields.find_array("messages")->size() - 1);
  if (!conversation.messages.back().tool_calls.empty()) {
    fields.refuse_value(last, "its calls have no results yet");
  } else if (!request.hide_reasoning) {
    fields.refuse_unsupported(last, "continuing a message of the assistant while thinking is on");
  } else if (request.requires_call || request.output_schema) {
    fields.refuse_unsupported(last, "continuing a message of the assistant in a form that is held to");
  }
}

// What the prompt is made of.
void read_prompt(FieldReader& fields, const App& app, ChatRequest& request) {
  request.model = fields.find_string("model").value_or(app.context.model.name);
  chat::ImageReader images = make_image_reader(app);
  request.conversation.messages = read_anthropic_messages(fields, images);
  request.conversation.images = images.take();
  request.conversation.tools = read_anthropic_tools(fields);
  read_tool_choice(fields, request);
  read_thinking(fields, request);
  read_output_config(fields, request);
  read_prefill(fields, request);
}

}  // namespace

Result<ChatRequest> parse_anthropic_request(std::string body, const App& app) {
  T9_TRY(document, parse_json_object(std::move(body)));
  FieldReader fields(document);
  ChatRequest request;
  if (!fields.find("max_tokens")) fields.refuse_missing("max_tokens");
  request.max_tokens = fields.find_integer("max_tokens", {.min = 1});
  request.stream = fields.find_bool("stream").value_or(false);
  request.sampling = read_sampling(fields);
  request.stop = fields.find_strings("stop_sequences", kMaxStopStrings);
  read_prompt(fields, app, request);
  T9_TRY_VOID(fields.result());
  return request;
}

Result<ChatRequest> parse_anthropic_count_request(std::string body, const App& app) {
  T9_TRY(document, parse_json_object(std::move(body)));
  FieldReader fields(document);
  ChatRequest request;
  read_prompt(fields, app, request);
  T9_TRY_VOID(fields.result());
  return request;
}

}  // namespace tempo9::server
