// The wire form of a chat request. Fields that are not read here and not in chat/openai_messages are ignored.
#include <fmt/format.h>

#include "chat/openai_messages.h"
#include "engine/limits.h"
#include "server/dialects/openai_chat.h"
#include "server/dialects/openai_fields.h"
#include "server/field_reader.h"
#include "server/limits.h"

namespace tempo9::server {

namespace {

std::optional<int64_t> read_max_tokens(FieldReader& fields) {
  const auto preferred = fields.find_integer("max_completion_tokens", {.min = 1});
  const auto older = fields.find_integer("max_tokens", {.min = 1});
  return preferred ? preferred : older;
}

void read_logprobs(FieldReader& fields, ChatRequest& request) {
  request.logprobs = fields.find_bool("logprobs").value_or(false);
  const auto top = fields.find_integer("top_logprobs", {0, engine::kMaxTopLogprobs});
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
  if (request.top_logprobs > 0 && !request.logprobs) {
    fields.refuse_value("top_logprobs", "it needs 'logprobs': true");
  }
}

// What would change the answer and is not built is refused by name; an answer that ignores it would be a wrong one.
void refuse_what_is_missing(FieldReader& fields) {
  if (const Json* modalities = fields.find_array("modalities")) {
    for (const Json& modality : *modalities) {
      if (modality != "text") fields.refuse_unsupported("modalities", "output other than text");
    }
  }
}

// The answer goes on with the text of the last message, which is the assistant's.
void read_continuation(FieldReader& fields, chat::Conversation& conversation) {
  conversation.continues_last = fields.find_bool("continue_final_message").value_or(false);
  if (!conversation.continues_last) return;
  const chat::Message& last = conversation.messages.back();
  if (last.role != chat::Role::kAssistant || !last.tool_calls.empty()) {
    fields.refuse_value("continue_final_message", "the last message is no text of the assistant");
  }
}

// chat_template_kwargs that switch thinking off count like reasoning_effort: what the model thinks anyway is left out.
bool hides_reasoning(FieldReader& fields, const chat::Conversation& conversation) {
  const bool is_excluded = fields.nested("reasoning").find_bool("exclude").value_or(false);
  const Json off = false;
  return is_excluded || conversation.template_kwargs.value("enable_thinking", Json()) == off;
}

bool names_a_tool(const chat::Conversation& conversation, const Json& choice) {
  for (const Json& tool : conversation.tools) {
    if (tool.contains("function") && tool["function"].value("name", Json()) == choice) return true;
  }
  return false;
}

// The list is a choice among the tools; all stay in the prompt.
void read_allowed_tools(FieldReader& fields, std::string_view name, ChatRequest& request) {
  FieldReader choice = fields.nested(name);
  FieldReader allowed = choice.nested("allowed_tools");
  const std::string mode = allowed.require_string("mode");
  if (mode != "auto" && mode != "required")
    allowed.refuse_value("mode", fmt::format("'{}' is not auto or required", mode));
  request.requires_call = mode == "required";
  const Json* tools = allowed.find_array("tools");
  if (!tools || tools->empty()) return allowed.refuse_missing("tools");
  for (const Json& tool : *tools) {
    const Json function = tool.is_object() ? tool.value("function", tool) : Json();
    const Json allowed_name = function.is_object() ? function.value("name", Json()) : Json();
    if (!allowed_name.is_string() || !names_a_tool(request.conversation, allowed_name)) {
      return allowed.refuse_value("tools", fmt::format("there is no tool {}", dump_json(allowed_name)));
    }
    request.allowed_tools.push_back(allowed_name.get<std::string>());
  }
}

// none leaves the tools out of the prompt; a forced call keeps all of them there, for the prefix cache.
void apply_tool_choice(FieldReader& fields, std::string_view name, ChatRequest& request) {
  const Json* choice = fields.find(name);
  if (!choice || *choice == "auto") return;
  if (*choice == "none") {
    request.conversation.tools.clear();
  } else if (*choice == "required") {
    if (request.conversation.tools.empty()) fields.refuse_value(name, "there are no tools to call");
    request.requires_call = true;
  } else if (choice->is_string()) {
    fields.refuse_value(name, fmt::format("'{}' is not none, auto or required", choice->get<std::string>()));
  } else if (!choice->is_object()) {
    fields.refuse_type(name, "a string or an object", *choice);
  } else if (choice->value("type", Json()) == "allowed_tools") {
    read_allowed_tools(fields, name, request);
  } else {
    const Json function = choice->value("function", choice->value("custom", *choice));
    const Json tool = function.is_object() ? function.value("name", Json()) : Json();
    if (!tool.is_string()) return fields.refuse_value(name, "it names no tool");
    if (!names_a_tool(request.conversation, tool)) {
      fields.refuse_value(name, fmt::format("there is no tool named '{}'", tool.get<std::string>()));
    }
    request.requires_call = true;
    request.forced_tool = tool.get<std::string>();
  }
}

}  // namespace

Result<ChatRequest> parse_openai_chat(std::string body, const App& app) {
  T9_TRY(document, parse_json_object(std::move(body)));
  FieldReader fields(document);
  ChatRequest request;
  read_openai_frame(fields, app, request);
  request.sampling = read_openai_sampling(fields);
  request.max_tokens = read_max_tokens(fields);
  request.stop = fields.find_strings("stop", kMaxStopStrings);
  request.n_choices = fields.find_integer("n", {1, kMaxOpenAiChoices}).value_or(1);
  read_logprobs(fields, request);
  read_openai_response_format(fields, request);
  refuse_what_is_missing(fields);
  T9_TRY_VOID(fields.result());
  chat::ImageReader images = make_image_reader(app);
  T9_TRY(conversation, chat::parse_openai_conversation(document, images));
  request.conversation = std::move(conversation);
  read_continuation(fields, request.conversation);
  request.parallel_tool_calls = fields.find_bool("parallel_tool_calls").value_or(true);
  request.hide_reasoning = hides_reasoning(fields, request.conversation);
  apply_tool_choice(fields, "tool_choice", request);
  apply_tool_choice(fields, "function_call", request);
  T9_TRY_VOID(fields.result());
  return request;
}

}  // namespace tempo9::server
