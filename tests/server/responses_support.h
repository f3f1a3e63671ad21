// The Responses route as a client sees it: a stream put together again by the rules of the official libraries.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "server/server_fixture.h"

namespace tempo9::testing {

// The events of a stream. Each has its type on an `event:` line as well, and its number.
inline std::vector<Json> responses_events(std::string_view body) {
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
    EXPECT_EQ(events.back()["sequence_number"], events.size() - 1);
  }
  return events;
}

// The whole response of a stream, joined as the official libraries do, which throw where something is out of order.
// Checks that items do not overlap, that every part is announced, that what is said at the end is what was said before.
class ResponsesAccumulator {
 public:
  void add(const Json& event) {
    const std::string type = event["type"];
    EXPECT_FALSE(is_over_) << type << " comes after the end";
    EXPECT_EQ(type == "response.created", response_.is_null()) << type;
    if (type == "response.created" || type == "response.in_progress") {
      response_ = event["response"];
      EXPECT_EQ(response_["status"], "in_progress");
      EXPECT_EQ(response_["output"], Json::array());
      EXPECT_TRUE(response_["usage"].is_null());
    } else if (type == "response.output_item.added") {
      EXPECT_FALSE(is_open_);
      EXPECT_EQ(event["output_index"], items_.size());
      EXPECT_EQ(event["item"].value("status", ""), "in_progress");
      is_open_ = true;
      items_.push_back(event["item"]);
    } else if (type == "response.output_item.done") {
      end_item(event);
    } else if (type == "response.completed" || type == "response.incomplete" || type == "response.failed") {
      EXPECT_EQ(is_open_ && type != "response.failed", false);
      is_over_ = true;
      response_ = event["response"];
      EXPECT_EQ(type, "response." + response_["status"].get<std::string>());
      if (type != "response.failed") {
        EXPECT_EQ(response_["output"], items_);
      }
    } else if (type != "keepalive") {
      add_to_item(type, event);
    }
  }

  const Json& response() const { return response_; }
  bool is_over() const { return is_over_; }

 private:
  void add_to_item(const std::string& type, const Json& event) {
    ASSERT_TRUE(is_open_) << type;
    ASSERT_EQ(event["output_index"], items_.size() - 1);
    Json& item = items_.back();
    ASSERT_EQ(event["item_id"], item["id"]) << type;
    if (type == "response.content_part.added") {
      ASSERT_EQ(event["content_index"], item["content"].size());
      item["content"].push_back(event["part"]);
    } else if (type == "response.reasoning_summary_part.added") {
      ASSERT_EQ(event["summary_index"], item["summary"].size());
      item["summary"].push_back(event["part"]);
    } else if (type == "response.content_part.done") {
      ASSERT_EQ(event["part"], item["content"][event["content_index"].get<size_t>()]);
    } else if (type == "response.reasoning_summary_part.done") {
      ASSERT_EQ(event["part"], item["summary"][event["summary_index"].get<size_t>()]);
    } else if (type == "response.function_call_arguments.delta") {
      append(item["arguments"], event["delta"]);
    } else if (type == "response.function_call_arguments.done") {
      ASSERT_EQ(event["arguments"], item["arguments"]);
      ASSERT_EQ(event["name"], item["name"]);
    } else if (type == "response.custom_tool_call_input.delta") {
      append(item["input"], event["delta"]);
    } else if (type == "response.custom_tool_call_input.done") {
      ASSERT_EQ(event["input"], item["input"]);
    } else {
      const bool is_summary = type.starts_with("response.reasoning_summary_text");
      Json& parts = item[is_summary ? "summary" : "content"];
      const size_t index = event[is_summary ? "summary_index" : "content_index"];
      ASSERT_LT(index, parts.size()) << type << " before its part";
      Json& part = parts[index];
      ASSERT_EQ(type, event_of(part["type"]) + (type.ends_with(".delta") ? ".delta" : ".done"));
      if (type.ends_with(".done")) {
        ASSERT_EQ(event["text"], part["text"]);
        return;
      }
      part["text"].get_ref<std::string&>() += event["delta"].get<std::string>();
      const Json logprobs = event.value("logprobs", Json::array());
      for (const Json& entry : logprobs) part["logprobs"].push_back(entry);
    }
  }

  static std::string event_of(const Json& part_type) {
    const std::string name = part_type;
    return "response." + (name == "summary_text" ? "reasoning_summary_text" : name);
  }

  static void append(Json& text, const Json& delta) {
    EXPECT_NE(delta, "") << "an empty delta";
    text.get_ref<std::string&>() += delta.get<std::string>();
  }

  void end_item(const Json& event) {
    ASSERT_TRUE(is_open_);
    is_open_ = false;
    ASSERT_EQ(event["output_index"], items_.size() - 1);
    Json expected = items_.back();
    expected["status"] = event["item"]["status"];
    if (event["item"].contains("encrypted_content")) {
      expected["encrypted_content"] = event["item"]["encrypted_content"];
    }
    EXPECT_EQ(nlohmann::json::parse(expected.dump()), nlohmann::json::parse(event["item"].dump()));
    items_.back() = event["item"];
  }

  Json response_;
  Json items_ = Json::array();
  bool is_open_ = false;
  bool is_over_ = false;
};

inline Json joined_response(std::string_view body) {
  ResponsesAccumulator all;
  for (const Json& event : responses_events(body)) all.add(event);
  EXPECT_TRUE(all.is_over()) << body;
  return all.response();
}

// What stays the same when an answer is made again: ids and times taken out.
inline Json comparable_response(Json response) {
  for (const char* key : {"id", "created_at", "completed_at"}) response.erase(key);
  for (Json& item : response["output"]) {
    item.erase("id");
    item.erase("call_id");
  }
  return response;
}

class ResponsesTest : public ServerTest {
 protected:
  void SetUp() override { use_template("{# <tool_call> #}"); }

  // A request with the input, a JSON value, and the further fields given.
  static std::string input_body(std::string_view fields = {}, std::string_view input = "\"hi\"") {
    std::string body = R"({"model":"gpt-x","input":)";
    body += input;
    if (!fields.empty()) body += "," + std::string(fields);
    return body + "}";
  }
  HttpReply ask(std::string_view body) { return post("/v1/responses", body); }
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
    Json response = whole(body);
    EXPECT_EQ(comparable_response(joined_response(ask_streamed(body).body)), comparable_response(response));
    return response;
  }
  // The prompt of the request that is sent.
  std::string prompt_of(std::string_view body) {
    const HttpReply reply = ask(body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const auto stream = service_.next_stream();
    return stream ? tokenizer_.decode(stream->request.prompt, true) : "";
  }
};

// What the model says, a token a text.
inline std::vector<engine::Event> counted_events(const std::vector<std::string>& texts, engine::Event last) {
  std::vector<engine::Event> events;
  for (const std::string& text : texts) {
    events.push_back(text_event(text));
    events.back().tokens = {1};
  }
  events.push_back(std::move(last));
  return events;
}

}  // namespace tempo9::testing
