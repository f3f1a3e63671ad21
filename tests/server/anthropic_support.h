// The Anthropic routes as a client sees them: a stream put together again by the rules of the official libraries.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "server/server_fixture.h"

namespace tempo9::testing {

// The events of a stream. Each has its type on an `event:` line as well; libraries skip those that have not.
inline std::vector<Json> anthropic_events(std::string_view body) {
  std::vector<Json> events;
  while (!body.empty()) {
    const size_t end = body.find("\n\n");
    const std::string_view event = body.substr(0, end);
    body = end == std::string_view::npos ? std::string_view() : body.substr(end + 2);
    const size_t data = event.find("\ndata: ");
    EXPECT_TRUE(event.starts_with("event: ") && data != std::string_view::npos) << event;
    if (data == std::string_view::npos) continue;
    events.push_back(Json::parse(event.substr(data + 7)));
    EXPECT_EQ(event.substr(7, data - 7), events.back()["type"].get<std::string>());
  }
  return events;
}

// The whole message of a stream that ended well, joined as the official libraries do. Checks the order of events: one
// block open at a time, indexes from 0, no empty delta.
class AnthropicAccumulator {
 public:
  void add(const Json& event) {
    const std::string type = event["type"];
    EXPECT_FALSE(is_over_) << "nothing comes after message_stop";
    EXPECT_EQ(type == "message_start", message_.is_null()) << type;
    if (type == "message_start") {
      message_ = event["message"];
      EXPECT_EQ(message_["content"], Json::array());
      EXPECT_TRUE(message_["usage"]["input_tokens"].is_number_unsigned());
      EXPECT_EQ(message_["usage"]["output_tokens"], 0);
    } else if (type == "content_block_start") {
      EXPECT_FALSE(is_open_);
      EXPECT_EQ(event["index"], message_["content"].size());
      is_open_ = true;
      message_["content"].push_back(event["content_block"]);
      input_.clear();
    } else if (type == "content_block_delta") {
      expect_open(event);
      add_delta(event["delta"]);
    } else if (type == "content_block_stop") {
      expect_open(event);
      is_open_ = false;
      Json& block = message_["content"].back();
      if (block["type"] == "tool_use") block["input"] = Json::parse(input_.empty() ? "{}" : input_, nullptr, false);
    } else if (type == "message_delta") {
      EXPECT_FALSE(is_open_);
      message_.update(event["delta"]);
      message_["usage"].update(event["usage"]);
    } else if (type == "message_stop") {
      is_over_ = true;
    } else {
      EXPECT_EQ(type, "ping");
    }
  }

  const Json& message() const { return message_; }
  bool is_over() const { return is_over_; }
  // Of the last tool_use block, as it was sent.
  const std::string& input_text() const { return input_; }

 private:
  void expect_open(const Json& event) {
    EXPECT_TRUE(is_open_);
    EXPECT_EQ(event["index"].get<size_t>() + 1, message_["content"].size());
  }

  void add_delta(const Json& delta) {
    Json& block = message_["content"].back();
    const std::string type = delta["type"];
    if (type == "input_json_delta") {
      EXPECT_EQ(block["type"], "tool_use");
      input_ += delta["partial_json"].get<std::string>();
      return;
    }
    const std::string key = type.substr(0, type.find("_delta"));
    EXPECT_EQ(block["type"], key == "signature" ? "thinking" : key);
    EXPECT_NE(delta[key], "") << "an empty delta";
    block[key].get_ref<std::string&>() += delta[key].get<std::string>();
  }

  Json message_;
  std::string input_;
  bool is_open_ = false;
  bool is_over_ = false;
};

inline Json joined_message(std::string_view body) {
  AnthropicAccumulator all;
  for (const Json& event : anthropic_events(body)) all.add(event);
  EXPECT_TRUE(all.is_over()) << body;
  return all.message();
}

// What stays the same when an answer is made again: ids taken out, and what only one of the two forms says.
inline Json comparable(Json message) {
  message.erase("id");
  for (const char* key : {"stop_details", "container"}) message.erase(key);
  for (const char* key : {"server_tool_use", "service_tier", "cache_creation"}) message["usage"].erase(key);
  for (Json& block : message["content"]) block.erase("id");
  return Json::parse(nlohmann::json::parse(message.dump()).dump());  // keys in one order
}

class AnthropicTest : public ServerTest {
 protected:
  void SetUp() override { use_template("{# <tool_call> #}"); }

  // A request with one message and the further fields given.
  static std::string message_body(std::string_view fields = {}, std::string_view content = "\"hi\"") {
    std::string body = R"({"model":"claude-x","max_tokens":100,"messages":[{"role":"user","content":)";
    body += std::string(content) + "}]";
    if (!fields.empty()) body += "," + std::string(fields);
    return body + "}";
  }
  HttpReply ask(std::string_view body) { return post("/v1/messages?beta=true", body); }
  Json whole(std::string_view body) {
    const HttpReply reply = ask(body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return parse(reply.body);
  }
  HttpReply ask_streamed(std::string body) {
    body.insert(1, R"("stream":true,)");
    return ask(body);
  }
  // The answer, which is the same whole and streamed.
  Json both(const std::string& body) {
    Json message = whole(body);
    EXPECT_EQ(comparable(joined_message(ask_streamed(body).body)), comparable(message));
    return message;
  }
  // The prompt of the request that was sent last.
  std::string prompt_of(std::string_view body) {
    const HttpReply reply = ask(body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const auto stream = service_.next_stream();
    return stream ? tokenizer_.decode(stream->request.prompt, true) : "";
  }
};

}  // namespace tempo9::testing
