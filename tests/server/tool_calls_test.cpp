// Tool calls and reasoning on /v1/chat/completions: what becomes of a model's text on the wire.
#include <set>

#include "chat/tools/dialect.h"
#include "server/server_fixture.h"

namespace tempo9::testing {
namespace {

using engine::FinishReason;

constexpr std::string_view kTools = R"("tools":[{"type":"function","function":{"name":"weather","parameters":
    {"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}}])";
constexpr std::string_view kCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": \"3\"}}\n</tool_call>";

// What a client has put together from an answer, streamed or not.
struct Message {
  std::string content;
  std::string reasoning;
  std::vector<std::pair<std::string, std::string>> calls;
  std::vector<std::string> ids;
  std::string finish_reason;
  bool operator==(const Message& other) const {
    return content == other.content && reasoning == other.reasoning && calls == other.calls &&
           finish_reason == other.finish_reason;
  }
};

std::ostream& operator<<(std::ostream& out, const Message& message) {
  out << "content <" << message.content << "> reasoning <" << message.reasoning << "> " << message.finish_reason;
  for (const auto& [name, arguments] : message.calls) out << " " << name << " " << arguments;
  return out;
}

std::string text_or_empty(const Json& object, const char* key) {
  const Json value = object.value(key, Json());
  return value.is_string() ? value.get<std::string>() : "";
}

Message whole_message(const Json& body) {
  const Json& choice = body["choices"][0];
  Message message{.content = text_or_empty(choice["message"], "content"),
                  .reasoning = text_or_empty(choice["message"], "reasoning_content"),
                  .finish_reason = choice["finish_reason"]};
  for (const Json& call : choice["message"].value("tool_calls", Json::array())) {
    EXPECT_EQ(call["type"], "function");
    message.calls.emplace_back(call["function"]["name"], call["function"]["arguments"]);
    message.ids.push_back(call["id"]);
  }
  return message;
}

// As the client libraries join it: an index begins with id and name, and none is returned to.
void add_call_delta(Message& message, const Json& delta) {
  const auto index = delta["index"].get<size_t>();
  if (delta.contains("id")) {
    EXPECT_EQ(index, message.calls.size());
    EXPECT_EQ(delta["type"], "function");
    EXPECT_EQ(delta["function"]["arguments"], "");
    message.calls.emplace_back(delta["function"]["name"], "");
    message.ids.push_back(delta["id"]);
    return;
  }
  ASSERT_EQ(index + 1, message.calls.size());
  const std::string arguments = delta["function"]["arguments"];
  EXPECT_FALSE(arguments.empty());
  message.calls.back().second += arguments;
}

Message streamed_message(const std::string& body) {
  Message message;
  bool is_first = true;
  for (const std::string& event : sse_events(body)) {
    if (event == "[DONE]") continue;
    const Json chunk = Json::parse(event);
    if (chunk["choices"].empty()) continue;
    const Json& choice = chunk["choices"][0];
    const Json& delta = choice["delta"];
    EXPECT_EQ(message.finish_reason, "") << "nothing comes after the finish";
    EXPECT_EQ(delta.contains("role"), is_first);
    if (!is_first && choice["logprobs"].is_null()) {
      EXPECT_NE(delta.value("content", Json()), "") << "an empty delta";
    }
    is_first = false;
    message.content += text_or_empty(delta, "content");
    message.reasoning += text_or_empty(delta, "reasoning_content");
    for (const Json& call : delta.value("tool_calls", Json::array())) add_call_delta(message, call);
    message.finish_reason += text_or_empty(choice, "finish_reason");
  }
  return message;
}

class ToolCallTest : public ServerTest {
 protected:
  void SetUp() override { use_template("{# <tool_call> #}"); }

  static std::string with_tools(const std::string& fields = {}) {
    return chat_body(std::string(kTools) + (fields.empty() ? "" : "," + fields));
  }
  Message ask(const std::string& body) { return whole_message(parse(chat(body).body)); }
  Message ask_streamed(std::string body) {
    body.insert(1, R"("stream":true,)");
    return streamed_message(chat(body).body);
  }
  // The same both ways.
  Message ask_both(const std::string& body) {
    const Message whole = ask(body);
    EXPECT_EQ(ask_streamed(body), whole);
    return whole;
  }
};

TEST_F(ToolCallTest, ReasoningTextAndCallsHaveTheirPlaces) {
  service_.answer_with({"<think>\nLook", " it up.\n</think>\n\nOne ", "moment.\n", std::string(kCall), "\n",
                        "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"R\\u00f6m\"}}</tool_call>"});
  const Json body = parse(chat(with_tools()).body);
  const Json& message = body["choices"][0]["message"];
  EXPECT_EQ(message["content"], "One moment.");
  EXPECT_EQ(message["reasoning_content"], "Look it up.");
  EXPECT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], R"({"city": "Oslo", "days": 3})");
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], R"({"city": "R\u00f6m"})");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(ask_streamed(with_tools()), whole_message(body));
}

TEST_F(ToolCallTest, AMessageWithCallsOnlyHasNullContent) {
  service_.answer_with({std::string(kCall)});
  const Json message = parse(chat(with_tools()).body)["choices"][0]["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_FALSE(message.contains("reasoning_content"));
  service_.answer_with({""});
  const Json empty = parse(chat(with_tools()).body)["choices"][0];
  EXPECT_EQ(empty["message"]["content"], "");
  EXPECT_FALSE(empty["message"].contains("tool_calls"));
  EXPECT_EQ(empty["finish_reason"], "stop");
}

TEST_F(ToolCallTest, IdsAreUniqueAndOfTheApisForm) {
  service_.answer_with({std::string(kCall) + std::string(kCall)});
  std::set<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    for (const std::string& id : ask(with_tools()).ids) ids.insert(id);
    for (const std::string& id : ask_streamed(with_tools()).ids) ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 40u);
  for (const std::string& id : ids) {
    EXPECT_TRUE(id.starts_with("call_"));
    EXPECT_EQ(id.size(), 5u + 24u);
  }
}

TEST_F(ToolCallTest, ArgumentsStreamWhileTheyAreWritten) {
  HttpClient client(port());
  client.request("POST", "/v1/chat/completions", with_tools(R"("stream":true)"));
  client.read_head();
  client.read_chunk();
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  stream->push(text_event("<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os"));
  const std::string chunk = client.read_chunk().value_or("");
  EXPECT_NE(chunk.find(R"("function":{"name":"weather","arguments":""})"), std::string::npos) << chunk;
  EXPECT_NE(chunk.find(R"({\"city\": \"Os)"), std::string::npos) << chunk;
}

TEST_F(ToolCallTest, ACallThatTheLimitCutsIsLengthAndStaysAsItWasSent) {
  service_.answer_with({"<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os"}, FinishReason::kLength);
  const Message cut = ask_both(with_tools());
  EXPECT_EQ(cut.finish_reason, "length");
  ASSERT_EQ(cut.calls.size(), 1u);
  EXPECT_EQ(cut.calls[0].second, "{\"city\": \"Os");
  service_.answer_with({"<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os"});
  EXPECT_EQ(ask_both(with_tools()).finish_reason, "tool_calls");
}

TEST_F(ToolCallTest, WithoutToolsMarkupIsTextAndReasoningIsStillReasoning) {
  const std::string text = "<think>Hm.</think>" + std::string(kCall);
  service_.answer_with({text});
  for (const std::string& body : {chat_body(), with_tools(R"("tool_choice":"none")")}) {
    const Message message = ask_both(body);
    EXPECT_EQ(message.content, kCall);
    EXPECT_EQ(message.reasoning, "Hm.");
    EXPECT_EQ(message.finish_reason, "stop");
  }
}

TEST_F(ToolCallTest, ReasoningThatTheClientDoesNotWantIsLeftOut) {
  service_.answer_with({"<think>Hm.</think>Yes."});
  for (const std::string fields :
       {R"("reasoning_effort":"none")", R"("enable_thinking":false)",
        R"("chat_template_kwargs":{"enable_thinking":false})", R"("reasoning":{"exclude":true})"}) {
    const Message message = ask_both(chat_body(fields));
    EXPECT_EQ(message.reasoning, "") << fields;
    EXPECT_EQ(message.content, "Yes.") << fields;
  }
  EXPECT_EQ(ask_both(chat_body(R"("reasoning_effort":"low")")).reasoning, "Hm.");
}

TEST_F(ToolCallTest, APromptThatOpensTheReasoningBeginsInIt) {
  use_template("{# <tool_call> #}", "<think>\n");
  service_.answer_with({"Hm.\n</think>\n\nYes."});
  const Message message = ask_both(chat_body());
  EXPECT_EQ(message.reasoning, "Hm.");
  EXPECT_EQ(message.content, "Yes.");
  service_.answer_with({"still thinking"}, FinishReason::kLength);
  EXPECT_EQ(ask_both(chat_body()).reasoning, "still thinking");
}

TEST_F(ToolCallTest, TokensOfTheReasoningAreCounted) {
  std::vector<engine::Event> events;
  for (const char* text : {"<think>", "a", "b", "</think>", "c", "d"}) {
    events.push_back(text_event(text));
    events.back().tokens = {1};
  }
  events.push_back(last_event(FinishReason::kStop, {.prompt_tokens = 2, .completion_tokens = 6}));
  service_.play(events);
  const Json usage = parse(chat(chat_body()).body)["usage"];
  EXPECT_EQ(usage["completion_tokens"], 6);
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], 4);
}

TEST_F(ToolCallTest, OneCallIsEnoughWhenTheClientSaysSo) {
  service_.answer_with({std::string(kCall), std::string(kCall), "more"});
  const Message message = ask_both(with_tools(R"("parallel_tool_calls":false)"));
  EXPECT_EQ(message.calls.size(), 1u);
  EXPECT_EQ(message.content, "");
  EXPECT_EQ(message.finish_reason, "tool_calls");
  EXPECT_TRUE(service_.next_stream()->wait_cancelled());
  EXPECT_EQ(ask_both(with_tools()).calls.size(), 2u);
}

TEST_F(ToolCallTest, AnInventedToolResultEndsTheAnswer) {
  service_.answer_with({std::string(kCall) + "\n<tool_response>\n5\n</tool_response>\nIt is 5."});
  const Message message = ask_both(with_tools());
  EXPECT_EQ(message.content, "");
  EXPECT_EQ(message.finish_reason, "tool_calls");
  EXPECT_TRUE(service_.next_stream()->wait_cancelled());
}

TEST_F(ToolCallTest, StopStringsAreMatchedInVisibleTextOnly) {
  service_.answer_with({"<think>a\n\nb</think>", "One.", "\n", "\nTwo", std::string(kCall)});
  const Message message = ask_both(with_tools(R"("stop":["\n\n","}"])"));
  EXPECT_EQ(message.reasoning, "a\n\nb");
  EXPECT_EQ(message.content, "One.");
  EXPECT_EQ(message.finish_reason, "stop");
  EXPECT_TRUE(service_.next_stream()->wait_cancelled());
  const Message call = ask_both(with_tools(R"("stop":"}")"));
  EXPECT_EQ(call.content, "One.\n\nTwo");
  EXPECT_EQ(call.calls.size(), 1u);
  EXPECT_EQ(call.finish_reason, "tool_calls");
}

TEST_F(ToolCallTest, WhatAStopStringCutsOffIsNotCounted) {
  std::vector<engine::Event> events;
  for (const char* text : {"a", "b", "c", "d", "e"}) {
    events.push_back(text_event(text));
    events.back().tokens = {1};
  }
  events.push_back(failed_event(Error(ErrorCode::kCancelled, "the client has gone")));
  events.back().usage = {.prompt_tokens = 7, .completion_tokens = 5};
  service_.play(events);
  const Json body = parse(chat(chat_body(R"("stop":"c")")).body);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "ab");
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 7);
}

TEST_F(ToolCallTest, LogprobsAreThoseOfTheContentAndJoinToIt) {
  std::vector<engine::Event> events;
  const std::vector<std::string> tokens = {"<think>",      "hm",        "</think>",    "\n\n",
                                           "Gr\u00fc",     "\u00dfe. ", "<tool_call>", "{\"name\": \"weather\"}",
                                           "</tool_call>", "\n",        "Bye\n"};
  for (const std::string& token : tokens) {
    events.push_back(text_event(token));
    events.back().tokens = {1};
    events.back().logprobs = {{.chosen = {1, -0.5f}, .top = {}, .bytes = token}};
  }
  events.push_back(last_event(FinishReason::kStop));
  service_.play(events);
  const std::string body = with_tools(R"("logprobs":true)");
  const Json choice = parse(chat(body).body)["choices"][0];
  std::vector<std::string> found;
  for (const Json& entry : choice["logprobs"]["content"]) found.push_back(entry["token"]);
  EXPECT_EQ(found, (std::vector<std::string>{"Gr\u00fc", "\u00dfe.", "\n", "Bye\n"}));
  EXPECT_EQ(choice["message"]["content"], "Gr\u00fc\u00dfe.\nBye\n");
  Json streamed = Json::array();
  for (const std::string& event : sse_events(chat(with_tools(R"("logprobs":true,"stream":true)")).body)) {
    if (event == "[DONE]") continue;
    const Json logprobs = Json::parse(event)["choices"][0]["logprobs"];
    if (!logprobs.is_null()) streamed.insert(streamed.end(), logprobs["content"].begin(), logprobs["content"].end());
  }
  EXPECT_EQ(streamed, choice["logprobs"]["content"]);
}

// Every text of the collection, cut at random: a client gets the same whether it streams or not.
TEST_F(ToolCallTest, JoinedStreamsEqualWholeAnswersInEveryDialect) {
  for_each_tool_case(9, [&](const Json& item, const Json& tools, bool) {
    const Message message = ask_both(chat_body("\"tools\":" + tools.dump()));
    if (item.contains("start")) return;
    EXPECT_EQ(message.content, item["expect"]["content"]);
    EXPECT_EQ(message.calls.size(), item["expect"]["calls"].size());
  });
}

}  // namespace
}  // namespace tempo9::testing
