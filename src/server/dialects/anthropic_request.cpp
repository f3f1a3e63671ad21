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

// Off unless it is asked for. budget_tokens is checked, and not kept: the model ends its thought itself.
void read_thinking(FieldReader& fields, ChatRequest& request) {
  bool is_on = false;
  if (fields.find("thinking")) {
    FieldReader thinking = fields.nested("thinking");
    const std::string type = thinking.require_string("type");
    is_on = type == "enabled" || type == "adaptive" || type == "between_tools";
    if (!is_on && type != "disabled") {
      thinking.refuse_value("type", fmt::format("'{}' is not disabled, enabled, adaptive or between_tools", type));
    }
    thinking.find_integer("budget_tokens", {.min = 1});
    request.omit_reasoning_text = thinking.find_string("display") == "omitted";
  }
  request.hide_reasoning = !is_on;
  request.conversation.template_kwargs["enable_thinking"] = is_on;
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
  if (config.find_object("format")) config.refuse_unsupported("format", "output that is held to a schema");
  if (fields.find_object("output_format")) {
    fields.refuse_unsupported("output_format", "output that is held to a schema");
  }
}

bool has_tool(const chat::Conversation& conversation, std::string_view name) {
  return std::ranges::any_of(conversation.tools, [&](const Json& tool) { return tool["function"]["name"] == name; });
}

// "auto" and "none" can be kept: tools stand in the prompt or they don't. A forced call needs a grammar.
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
    fields.refuse_unsupported("tool_choice", "a forced tool call ('tool')");
  } else if (type == "any") {
    fields.refuse_unsupported("tool_choice", "a forced tool call ('any')");
  } else if (type != "auto") {
    choice.refuse_value("type", fmt::format("'{}' is not auto, any, tool or none", type));
  }
}

void refuse_prefill(FieldReader& fields, const chat::Conversation& conversation) {
  if (conversation.messages.empty() || conversation.messages.back().role != chat::Role::kAssistant) return;
  const size_t last = fields.find_array("messages")->size() - 1;
  fields.refuse_unsupported(fmt::format("messages[{}]", last), "continuing a message of the assistant");
}

// What the prompt is made of.
void read_prompt(FieldReader& fields, const App& app, ChatRequest& request) {
  request.model = fields.find_string("model").value_or(app.context.model.name);
  request.conversation.messages = read_anthropic_messages(fields);
  request.conversation.tools = read_anthropic_tools(fields);
  read_tool_choice(fields, request);
  read_thinking(fields, request);
  read_output_config(fields, request);
  refuse_prefill(fields, request.conversation);
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
