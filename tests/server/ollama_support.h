// The Ollama routes as a client sees them: the lines of a stream put together again.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "server/server_fixture.h"

namespace tempo9::testing {

inline std::vector<Json> ndjson_lines(std::string_view body) {
  std::vector<Json> lines;
  EXPECT_TRUE(body.empty() || body.ends_with('\n')) << body;
  while (!body.empty()) {
    const size_t end = body.find('\n');
    lines.push_back(Json::parse(body.substr(0, end)));
    body.remove_prefix(end + 1);
  }
  return lines;
}

// The whole object of a stream that ended well, joined as client libraries do.
inline Json joined_lines(std::string_view body) {
  const std::vector<Json> lines = ndjson_lines(body);
  EXPECT_FALSE(lines.empty());
  Json text = {{"thinking", ""}, {"content", ""}, {"response", ""}};
  Json calls = Json::array();
  Json logprobs = Json::array();
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json& line = lines[i];
    const bool is_last = i + 1 == lines.size();
    EXPECT_EQ(line["done"], is_last) << "only the last line is done";
    const Json& shown = line.contains("message") ? line["message"] : line;
    for (const char* key : {"thinking", "content", "response"}) {
      text[key].get_ref<std::string&>() += shown.value(key, "");
    }
    for (const Json& call : shown.value("tool_calls", Json::array())) {
      EXPECT_EQ(call["function"]["index"], calls.size());
      calls.push_back(call);
    }
    for (const Json& entry : line.value("logprobs", Json::array())) logprobs.push_back(entry);
  }
  Json whole = lines.back();
  const bool is_chat = whole.contains("message");
  Json& shown = is_chat ? whole["message"] : whole;
  const char* name = is_chat ? "content" : "response";
  shown[name] = text[name];
  if (text["thinking"] != "") shown["thinking"] = text["thinking"];
  if (!calls.empty()) shown["tool_calls"] = calls;
  if (!logprobs.empty()) whole["logprobs"] = logprobs;
  return whole;
}

// Times and ids taken out, keys in one order.
inline Json comparable_reply(Json reply) {
  for (const char* key : {"created_at", "total_duration"}) reply.erase(key);
  if (reply.contains("message") && reply["message"].contains("tool_calls")) {
    for (Json& call : reply["message"]["tool_calls"]) call.erase("id");
  }
  return Json::parse(nlohmann::json::parse(reply.dump()).dump());
}

class OllamaTest : public ServerTest {
 protected:
  void SetUp() override { use_template("{# <tool_call> <think> #}"); }

  // Bodies with the further fields given.
  static std::string message_body(std::string_view fields = {}, std::string_view content = "\"hi\"") {
    std::string body = R"({"model":"m","messages":[{"role":"user","content":)" + std::string(content) + "}]";
    if (!fields.empty()) body += "," + std::string(fields);
    return body + "}";
  }
  static std::string prompt_body(std::string_view fields = {}) {
    std::string body = R"({"model":"m","prompt":"hi")";
    if (!fields.empty()) body += "," + std::string(fields);
    return body + "}";
  }
  static std::string whole(std::string body) {
    body.insert(1, R"("stream":false,)");
    return body;
  }
  HttpReply ask(std::string_view body) { return post("/api/chat", body); }
  HttpReply generate(std::string_view body) { return post("/api/generate", body); }

  // The answer, which is the same whole and streamed.
  Json both(const std::string& body, std::string_view path = "/api/chat") {
    const HttpReply reply = post(path, whole(body));
    EXPECT_EQ(reply.status, 200) << reply.body;
    const HttpReply streamed = post(path, body);
    EXPECT_EQ(streamed.header("Content-Type"), "application/x-ndjson");
    EXPECT_EQ(comparable_reply(joined_lines(streamed.body)), comparable_reply(parse(reply.body)));
    return parse(reply.body);
  }
  std::shared_ptr<ScriptedStream> submitted(std::string_view path, const std::string& body) {
    const HttpReply reply = post(path, whole(body));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return service_.next_stream();
  }
  std::string prompt_of(std::string_view path, const std::string& body) {
    const auto stream = submitted(path, body);
    return stream ? tokenizer_.decode(stream->request.prompt, true) : "";
  }
  // The text of the error that a body is refused with.
  std::string refusal(std::string_view path, const std::string& body, int status = 400) {
    const HttpReply reply = post(path, body);
    EXPECT_EQ(reply.status, status) << body << " -> " << reply.body;
    EXPECT_NE(reply.header("Content-Type").find("application/json"), std::string::npos);
    const Json error = parse(reply.body);
    return error.is_object() && error.contains("error") && error["error"].is_string() ? error["error"] : "";
  }
};

}  // namespace tempo9::testing
