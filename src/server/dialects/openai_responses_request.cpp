#include "server/dialects/openai_responses_request.h"

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <utility>

#include "chat/openai_messages.h"
#include "chat/tool_messages.h"
#include "engine/limits.h"
#include "server/dialects/openai_responses_items.h"
#include "server/field_reader.h"
#include "server/response_store.h"

namespace tempo9::server {

namespace {

SamplingFields read_sampling(FieldReader& fields) {
  SamplingFields sampling;
  sampling.temperature = fields.find_number("temperature", {0, 2});
  sampling.top_p = fields.find_number("top_p", {0, 1});
  return sampling;
}

void refuse_what_is_missing(FieldReader& fields) {
  if (fields.find_bool("background").value_or(false)) fields.refuse_unsupported("background", "a background response");
  for (const char* name : {"conversation", "prompt"}) {
    if (fields.find(name)) fields.refuse_unsupported(name, "what OpenAI's servers keep under an id");
  }
}

// Spec api 4.7.
void read_text_format(FieldReader& fields, ChatRequest& request) {
  FieldReader text = fields.nested("text");
  FieldReader format = text.nested("format");
  const auto type = format.find_string("type");
  if (!type || *type == "text") return;
  if (*type == "json_object") {
    request.output_schema = OutputSchema{.schema = {{"type", "object"}}, .is_strict = false, .field = "text.format"};
  } else if (*type == "json_schema") {
    const bool is_strict = format.find_bool("strict").value_or(false);
    const Json* schema = format.find_object("schema");
    if (!schema) return format.refuse_missing("schema");
    request.output_schema = OutputSchema{.schema = *schema, .is_strict = is_strict, .field = "text.format"};
  } else {
    format.refuse_value("type", fmt::format("'{}' is not text, json_object or json_schema", *type));
  }
}

void read_truncation(FieldReader& fields, ChatRequest& request) {
  const std::string truncation = fields.find_string("truncation").value_or("disabled");
  request.drops_oldest = truncation == "auto";
  if (truncation != "auto" && truncation != "disabled") {
    fields.refuse_value("truncation", fmt::format("'{}' is not auto or disabled", truncation));
  }
}

// The kinds of `include` that are known; others are ignored.
void read_include(FieldReader& fields, ChatRequest& request, ResponsesExtras& extras) {
  const Json* include = fields.find_array("include");
  for (size_t i = 0; include && i < include->size(); ++i) {
    const Json& item = (*include)[i];
    if (!item.is_string()) fields.refuse_type(fmt::format("include[{}]", i), "a string", item);
    if (item == "reasoning.encrypted_content") extras.seals_reasoning = true;
    if (item == "message.output_text.logprobs") request.logprobs = true;
  }
  const auto top = fields.find_integer("top_logprobs", {0, engine::kMaxTopLogprobs});
  if (request.logprobs) request.top_logprobs = static_cast<int32_t>(top.value_or(0));
}

// Whatever summary is asked for is the reasoning itself: nothing here could shorten it.
void read_summary(FieldReader& fields, ResponsesExtras& extras) {
  FieldReader reasoning = fields.nested("reasoning");
  for (const char* name : {"summary", "generate_summary"}) {
    const auto summary = reasoning.find_string(name);
    if (!summary) continue;
    extras.summarizes = true;
    if (*summary != "auto" && *summary != "concise" && *summary != "detailed") {
      reasoning.refuse_value(name, fmt::format("'{}' is not auto, concise or detailed", *summary));
    }
  }
}

// The tool of the client that a choice names; its name for the model.
std::string chosen_tool(FieldReader& choice, const ResponsesTools& tools) {
  const std::string name = choice.require_string("name");
  const std::string flat = flat_tool_name(choice.find_string("namespace").value_or(""), name);
  if (!name.empty() && !tools.find(flat)) choice.refuse_value("name", fmt::format("there is no tool named '{}'", name));
  return flat;
}

void require_call(FieldReader& fields, ChatRequest& request) {
  if (request.conversation.tools.empty()) fields.refuse_value("tool_choice", "there are no tools to call");
  request.requires_call = true;
}

// All tools stay in the prompt, for the prefix cache. Tools that the model is not offered may be in the list.
void allow_only(FieldReader& fields, FieldReader& choice, const ResponsesTools& tools, ChatRequest& request) {
  const Json* list = choice.find_array("tools");
  if (!list) choice.refuse_missing("tools");
  for (size_t i = 0; list && i < list->size(); ++i) {
    FieldReader tool = choice.element("tools", i);
    const std::string type = tool.require_string("type");
    if (type == "function" || type == "custom") request.allowed_tools.push_back(chosen_tool(tool, tools));
  }
  if (request.allowed_tools.empty()) request.conversation.tools.clear();
  const std::string mode = choice.find_string("mode").value_or("auto");
  if (mode == "required") {
    require_call(fields, request);
  } else if (mode != "auto") {
    choice.refuse_value("mode", fmt::format("'{}' is not auto or required", mode));
  }
}

void read_tool_choice(FieldReader& fields, const ResponsesTools& tools, ChatRequest& request) {
  const Json* given = fields.find("tool_choice");
  if (!given || *given == "auto") return;
  if (*given == "none") {
    request.conversation.tools.clear();
  } else if (*given == "required") {
    require_call(fields, request);
  } else if (given->is_string()) {
    fields.refuse_value("tool_choice", fmt::format("'{}' is not none, auto or required", given->get<std::string>()));
  } else if (!given->is_object()) {
    fields.refuse_type("tool_choice", "a string or an object", *given);
  } else {
    FieldReader choice = fields.nested("tool_choice");
    const std::string type = choice.require_string("type");
    if (type == "function" || type == "custom") {
      request.forced_tool = chosen_tool(choice, tools);
      request.requires_call = true;
    } else if (type == "allowed_tools") {
      allow_only(fields, choice, tools, request);
    } else if (!type.empty()) {
      fields.refuse_unsupported("tool_choice", fmt::format("a call of the tool '{}'", type));
    }
  }
}

Json or_null(const Json* value) { return value ? *value : Json(); }
Json or_default(const Json* value, Json fallback) { return value ? *value : std::move(fallback); }

// What the response says of its request.
Json echo_of(FieldReader& fields, const ChatRequest& request, const SamplingDefaults& defaults, bool is_stored) {
  const SamplingFields& sampling = request.sampling;
  const FieldReader reasoning = fields.nested("reasoning");
  const FieldReader text = fields.nested("text");
  const Json* metadata = fields.find("metadata");
  return {
      {"model", request.model},
      {"instructions", or_null(fields.find("instructions"))},
      {"previous_response_id", or_null(fields.find("previous_response_id"))},
      {"parallel_tool_calls", request.parallel_tool_calls},
      {"tool_choice", or_default(fields.find("tool_choice"), "auto")},
      {"tools", or_default(fields.find("tools"), Json::array())},
      {"temperature", sampling.temperature.value_or(defaults.temperature.value_or(1))},
      {"top_p", sampling.top_p.value_or(defaults.top_p.value_or(1))},
      {"top_logprobs", request.top_logprobs},
      {"max_output_tokens", or_null(fields.find("max_output_tokens"))},
      {"max_tool_calls", or_null(fields.find("max_tool_calls"))},
      {"truncation", request.drops_oldest ? "auto" : "disabled"},
      {"store", is_stored},
      {"background", false},
      {"reasoning", {{"effort", or_null(reasoning.find("effort"))}, {"summary", or_null(reasoning.find("summary"))}}},
      {"text", {{"format", or_default(text.find("format"), {{"type", "text"}})}}},
      {"service_tier", "default"},
      {"metadata", metadata && metadata->is_object() ? *metadata : Json::object()},
      {"user", nullptr},
      {"safety_identifier", or_null(fields.find("safety_identifier"))},
      {"prompt_cache_key", or_null(fields.find("prompt_cache_key"))}};
}

// References to items of stored responses become those items.
void resolve_references(Json& document, const ResponseStore& responses) {
  const auto input = document.find("input");
  if (input == document.end() || !input->is_array()) return;
  for (Json& item : *input) {
    if (!item.is_object() || item.value("type", Json()) != "item_reference") continue;
    const Json id = item.value("id", Json());
    if (!id.is_string()) continue;
    if (auto found = responses.find_item(id.get_ref<const std::string&>())) item = *std::move(found);
  }
}

// The response to go on from; null when none is named.
std::shared_ptr<const StoredResponse> find_previous(FieldReader& fields, ResponseStore& responses) {
  const auto id = fields.find_string("previous_response_id");
  if (!id) return nullptr;
  auto previous = responses.find(*id);
  if (!previous) {
    fields.refuse(Error(ErrorCode::kInvalidInput, fmt::format("Previous response with id '{}' not found.", *id))
                      .with_field("previous_response_id")
                      .with_reason("previous_response_not_found"));
  }
  return previous;
}

chat::Message system_message(std::string text) {
  chat::Message message;
  message.role = chat::Role::kSystem;
  message.content = std::move(text);
  return message;
}

// Instructions are those of this request alone.
std::vector<chat::Message> read_messages(FieldReader& fields, const StoredResponse* previous, ResponsesTools& tools,
                                         chat::ImageReader& images) {
  std::vector<chat::Message> messages;
  if (auto instructions = fields.find_string("instructions")) {
    messages.push_back(system_message(*std::move(instructions)));
  }
  const Json* input = fields.find("input");
  if (!input && !previous) fields.refuse_missing("input");
  if (input && input->is_array() && input->empty() && !previous) {
    fields.refuse_value("input", "at least one item is needed");
  }
  if (previous) {
    const Json earlier = {{"input", Json::parse("[" + previous->items + "]")}};
    FieldReader earlier_fields(earlier);
    read_responses_items(earlier_fields, "input", tools, images, messages);
  }
  read_responses_items(fields, "input", tools, images, messages);
  chat::settle_tool_results(messages);
  return messages;
}

// The conversation with this request's input, in the form of StoredResponse.
std::string stored_items(const Json* input, const StoredResponse* previous) {
  std::string items = previous ? previous->items : std::string();
  const auto add = [&items](const Json& item) { items += (items.empty() ? "" : ",") + dump_json(item); };
  if (!input) return items;
  if (input->is_string()) {
    add({{"type", "message"}, {"role", "user"}, {"content", *input}});
  } else {
    for (const Json& item : *input) add(item);
  }
  return items;
}

}  // namespace

Result<ChatRequest> parse_responses_request(std::string body, const App& app) {
  T9_TRY(document, parse_json_object(std::move(body)));
  resolve_references(document, app.responses);
  FieldReader fields(document);
  ChatRequest request;
  auto extras = std::make_shared<ResponsesExtras>();
  request.model = fields.find_string("model").value_or(app.context.model.name);
  request.stream = fields.find_bool("stream").value_or(false);
  request.sampling = read_sampling(fields);
  request.max_tokens = fields.find_integer("max_output_tokens", {.min = 1});
  request.parallel_tool_calls = fields.find_bool("parallel_tool_calls").value_or(true);
  extras->is_stored = fields.find_bool("store").value_or(true);
  read_truncation(fields, request);
  read_include(fields, request, *extras);
  read_summary(fields, *extras);
  read_text_format(fields, request);
  refuse_what_is_missing(fields);
  const auto previous = find_previous(fields, app.responses);
  extras->tools.read(fields, "tools");
  chat::ImageReader images = make_image_reader(app);
  request.conversation.messages = read_messages(fields, previous.get(), extras->tools, images);
  request.conversation.images = images.take();
  request.conversation.tools = extras->tools.offered();
  read_tool_choice(fields, extras->tools, request);
  T9_TRY_VOID(fields.result());
  T9_TRY_VOID(chat::read_template_kwargs(document, request.conversation));
  request.hide_reasoning = request.conversation.template_kwargs.value("enable_thinking", Json()) == Json(false);
  if (extras->is_stored) extras->items = stored_items(fields.find("input"), previous.get());
  extras->echo = echo_of(fields, request, app.context.sampling_defaults, extras->is_stored);
  request.extras = std::move(extras);
  return request;
}

}  // namespace tempo9::server
