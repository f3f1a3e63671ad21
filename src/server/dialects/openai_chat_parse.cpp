// The wire form of a chat request. Fields that are not read here and not in chat/openai_messages are ignored.
#include <fmt/format.h>

#include <charconv>

#include "chat/openai_messages.h"
#include "server/dialects/openai_chat.h"
#include "server/field_reader.h"
#include "server/limits.h"

namespace tempo9::server {

namespace {

constexpr int64_t kMaxTopLogprobs = 20;
constexpr int64_t kMaxChoices = 8;
constexpr double kMaxLogitBias = 100.0;

std::vector<std::pair<int32_t, float>> read_logit_bias(FieldReader& fields) {
  const Json* object = fields.find_object("logit_bias");
  if (!object) return {};
  std::vector<std::pair<int32_t, float>> biases;
  for (const auto& [key, value] : object->items()) {
    int32_t token = -1;
    const auto [end, problem] = std::from_chars(key.data(), key.data() + key.size(), token);
    const std::string name = "logit_bias." + key;
    if (problem != std::errc() || end != key.data() + key.size() || token < 0) {
      fields.refuse_value(name, "the key is not a token id");
    } else if (!value.is_number()) {
      fields.refuse_type(name, "a number", value);
    } else if (std::abs(value.get<double>()) > kMaxLogitBias) {
      fields.refuse_value(name, fmt::format("{} is not between -100 and 100", value.get<double>()));
    } else {
      biases.emplace_back(token, value.get<float>());
    }
  }
  return biases;
}

SamplingFields read_sampling(FieldReader& fields) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  SamplingFields sampling;
  sampling.temperature = fields.find_number("temperature", {0, 2});
  sampling.top_p = fields.find_number("top_p", {0, 1});
  sampling.top_k = fields.find_integer("top_k", {-kMaxInt32, kMaxInt32});
  sampling.min_p = fields.find_number("min_p", {0, 1});
  const NumberRange positive{.min = 0, .includes_min = false};
  sampling.repetition_penalty = fields.find_number("repetition_penalty", positive);
  const auto alias = fields.find_number("repeat_penalty", positive);
  if (!sampling.repetition_penalty) sampling.repetition_penalty = alias;
  sampling.presence_penalty = fields.find_number("presence_penalty", {-2, 2});
  sampling.frequency_penalty = fields.find_number("frequency_penalty", {-2, 2});
  sampling.seed = fields.find_integer("seed");
  sampling.logit_bias = read_logit_bias(fields);
  if (const auto typical_p = fields.find_number("typical_p", {0, 1}); typical_p && *typical_p != 1.0) {
    fields.refuse_unsupported("typical_p", "typical sampling");
  }
  return sampling;
}

std::optional<int64_t> read_max_tokens(FieldReader& fields) {
  const auto preferred = fields.find_integer("max_completion_tokens", {.min = 1});
  const auto older = fields.find_integer("max_tokens", {.min = 1});
  return preferred ? preferred : older;
}

void read_logprobs(FieldReader& fields, ChatRequest& request) {
  request.logprobs = fields.find_bool("logprobs").value_or(false);
  const auto top = fields.find_integer("top_logprobs", {0, kMaxTopLogprobs});
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
  if (request.top_logprobs > 0 && !request.logprobs) {
    fields.refuse_value("top_logprobs", "it needs 'logprobs': true");
  }
}

// Spec api 8.4. A schema that is not strict is held to as well, as far as its keywords can be.
void read_response_format(FieldReader& fields, ChatRequest& request) {
  FieldReader format = fields.nested("response_format");
  const auto type = format.find_string("type");
  if (!type || *type == "text") return;
  if (*type == "json_object") {
    request.output_schema = OutputSchema{.schema = {{"type", "object"}}, .is_strict = false};
  } else if (*type == "json_schema") {
    FieldReader described = format.nested("json_schema");
    const Json* schema = described.find_object("schema");
    const bool is_strict = described.find_bool("strict").value_or(false);
    if (schema) {
      request.output_schema = OutputSchema{.schema = *schema, .is_strict = is_strict};
    } else {
      described.refuse_missing("schema");
    }
  } else {
    format.refuse_value("type", fmt::format("'{}' is not text, json_object or json_schema", *type));
  }
}

// What would change the answer and is not built is refused by name; an answer that ignores it would be a wrong one.
void refuse_what_is_missing(FieldReader& fields) {
  if (fields.find_integer("n", {1, kMaxChoices}).value_or(1) > 1)
    fields.refuse_unsupported("n", "more than one choice");
  if (fields.find_bool("continue_final_message").value_or(false)) {
    fields.refuse_unsupported("continue_final_message", "continuing the last message");
  }
  if (const Json* modalities = fields.find_array("modalities")) {
    for (const Json& modality : *modalities) {
      if (modality != "text") fields.refuse_unsupported("modalities", "output other than text");
    }
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
  } else {
    const Json function = choice->value("function", choice->value("custom", *choice));
    const Json tool = function.is_object() ? function.value("name", Json()) : Json();
    if (!tool.is_string()) return fields.refuse_unsupported(name, "a restricted choice of tools");
    if (!names_a_tool(request.conversation, tool)) {
      fields.refuse_value(name, fmt::format("there is no tool named '{}'", tool.get<std::string>()));
    }
    request.requires_call = true;
    request.forced_tool = tool.get<std::string>();
  }
}

// A schema holds the content from its first token, so that an answer under one cannot call tools.
void refuse_schema_with_tools(FieldReader& fields, const ChatRequest& request) {
  if (!request.output_schema || request.conversation.tools.empty()) return;
  fields.refuse_unsupported("response_format", "a schema together with tools");
}

}  // namespace

Result<ChatRequest> parse_openai_chat(std::string body, const App& app) {
  T9_TRY(document, parse_json_object(std::move(body)));
  FieldReader fields(document);
  ChatRequest request;
  request.model = fields.find_string("model").value_or(app.context.model.name);
  request.stream = fields.find_bool("stream").value_or(false);
  request.include_usage = fields.nested("stream_options").find_bool("include_usage").value_or(false);
  request.sampling = read_sampling(fields);
  request.max_tokens = read_max_tokens(fields);
  request.stop = fields.find_strings("stop", kMaxStopStrings);
  read_logprobs(fields, request);
  read_response_format(fields, request);
  refuse_what_is_missing(fields);
  T9_TRY_VOID(fields.result());
  T9_TRY(conversation, chat::parse_openai_conversation(document));
  request.conversation = std::move(conversation);
  request.parallel_tool_calls = fields.find_bool("parallel_tool_calls").value_or(true);
  request.hide_reasoning = hides_reasoning(fields, request.conversation);
  apply_tool_choice(fields, "tool_choice", request);
  apply_tool_choice(fields, "function_call", request);
  refuse_schema_with_tools(fields, request);
  T9_TRY_VOID(fields.result());
  return request;
}

}  // namespace tempo9::server
