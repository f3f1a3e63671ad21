#include "chat/tool_messages.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "chat/json_text.h"

namespace tempo9::chat {
namespace {

struct OpenCall {
  std::string id;
  std::string name;
  std::optional<Message> result;
};

bool is_absent(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null();
}

OpenCall* find_call(std::vector<OpenCall>& calls, const Message& result) {
  OpenCall* answered = nullptr;
  for (OpenCall& call : calls) {
    if (call.id != result.tool_call_id) continue;
    if (!call.result) return &call;
    answered = &call;
  }
  if (answered) return answered;
  OpenCall* next = nullptr;
  for (OpenCall& call : calls) {
    if (call.result) continue;
    if (!result.name.empty() && call.name == result.name) return &call;
    if (!next) next = &call;
  }
  return next;
}

// Gives the call its result, or makes a user message of a result without a call.
void place_result(Message result, std::vector<OpenCall>& calls, std::vector<Message>& rest) {
  if (OpenCall* call = find_call(calls, result)) {
    result.tool_call_id = call->id;
    if (result.name.empty()) result.name = call->name;
    call->result = std::move(result);
  } else {
    Message orphan;
    orphan.content = std::move(result.content);
    rest.push_back(std::move(orphan));
  }
}

Message result_of(OpenCall call) {
  if (call.result) return *std::move(call.result);
  Message empty;
  empty.role = Role::kTool;
  empty.tool_call_id = std::move(call.id);
  empty.name = std::move(call.name);
  return empty;
}

}  // namespace

Json read_arguments(const Json* arguments) {
  if (!arguments) return Json::object();
  if (!arguments->is_string()) return *arguments;
  const auto& text = arguments->get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return Json::object();
  std::optional<Json> parsed = parse_json_text(text);
  return parsed && parsed->is_object() ? *std::move(parsed) : Json(text);
}

Json function_tool(Json function) {
  if (is_absent(function, "description")) function["description"] = "";
  if (is_absent(function, "parameters")) function["parameters"] = {{"type", "object"}};
  Json& parameters = function["parameters"];
  if (is_absent(parameters, "properties")) parameters["properties"] = Json::object();
  return {{"type", "function"}, {"function", std::move(function)}};
}

void settle_tool_results(std::vector<Message>& messages) {
  std::vector<Message> settled;
  settled.reserve(messages.size());
  int n_calls = 0;
  for (size_t i = 0; i < messages.size();) {
    std::vector<OpenCall> calls;
    for (; i < messages.size() && messages[i].role == Role::kAssistant; ++i) {
      for (ToolCall& call : messages[i].tool_calls) {
        if (call.id.empty()) call.id = fmt::format("call_{:04}", n_calls);
        ++n_calls;
        calls.push_back({call.id, call.name, std::nullopt});
      }
      settled.push_back(std::move(messages[i]));
    }
    if (i == messages.size()) break;
    std::vector<Message> rest;
    for (; i < messages.size() && messages[i].role != Role::kAssistant; ++i) {
      if (messages[i].role == Role::kTool) {
        place_result(std::move(messages[i]), calls, rest);
      } else {
        rest.push_back(std::move(messages[i]));
      }
    }
    for (OpenCall& call : calls) settled.push_back(result_of(std::move(call)));
    for (Message& message : rest) settled.push_back(std::move(message));
  }
  messages = std::move(settled);
}

}  // namespace tempo9::chat
