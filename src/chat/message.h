// A conversation as every API dialect hands it on.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tempo9::chat {

// Keys keep the client's order: they are rendered into the prompt.
using Json = nlohmann::ordered_json;

struct ToolCall {
  std::string id;
  std::string name;
  Json arguments;  // an object; a string when the client's text did not parse
};

enum class Role : uint8_t { kSystem, kUser, kAssistant, kTool };

struct Message {
  Role role = Role::kUser;
  std::string content;    // text parts joined
  Json parts;             // the client's own array of them, null when it sent none or other kinds too
  std::string reasoning;  // assistant only
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;  // tool only
  std::string name;
};

// An image as a client sent it. In a message's text its mark stands for it (images.h).
struct ImagePart {
  std::string mark;
  std::shared_ptr<const std::string> file;  // bytes of the image's file
  std::string field;                        // where the client put it, for errors
};

// What a template is rendered with.
struct Conversation {
  std::vector<Message> messages;
  std::vector<ImagePart> images;  // those that the messages show, and maybe more
  std::vector<Json> tools;        // {"type":"function","function":{…}}, client key order
  bool add_generation_prompt = true;
  // The prompt ends with the text of the last message, which is the assistant's: the answer goes on with it.
  bool continues_last = false;
  Json template_kwargs = Json::object();  // chat_template_kwargs and what dialects derive (enable_thinking, …)
  // none, minimal, low, medium, high, xhigh or max; empty when the client did not say. A template is given the level of
  // its own that comes nearest, unless template_kwargs has one.
  std::string reasoning_effort;
};

}  // namespace tempo9::chat
