// What becomes of a model's text on /v1/messages: blocks, events, stop reasons, usage. Spec api 5.3 and 5.4.
#include <fmt/format.h>

#include <set>

#include "server/anthropic_support.h"

namespace tempo9::testing {
namespace {

using engine::FinishReason;

constexpr std::string_view kTools = R"("tools":[{"name":"weather","input_schema":
    {"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}])";
constexpr std::string_view kThinking = R"("thinking":{"type":"enabled","budget_tokens":1024})";
constexpr std::string_view kCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": \"3\"}}\n</tool_call>";

std::string with_tools(std::string_view fields = {}) {
  return fmt::format("{}{}{}", kTools, fields.empty() ? "" : ",", fields);
}

std::vector<engine::Event> counted(const std::vector<std::string>& texts, engine::Event last) {
  std::vector<engine::Event> events;
  for (const std::string& text : texts) {
    events.push_back(text_event(text));
    events.back().tokens = {1};
  }
  events.push_back(std::move(last));
  return events;
}

TEST_F(AnthropicTest, AWholeAnswerHasTheShapeOfTheSpecification) {
  service_.play(
      counted({"Par", "is."},
              last_event(FinishReason::kStop, {.prompt_tokens = 120, .cached_tokens = 96, .completion_tokens = 3})));
  const HttpReply reply = ask(message_body());
  EXPECT_TRUE(reply.header("Content-Type").starts_with("application/json"));
  EXPECT_TRUE(reply.header("request-id").starts_with("req_"));
  Json body = parse(reply.body);
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("msg_01"));
  EXPECT_EQ(body["id"].get<std::string>().size(), 6u + 22u);
  body.erase("id");
  EXPECT_EQ(nlohmann::json::parse(body.dump()), nlohmann::json::parse(R"({
      "type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Paris."}],
      "stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"container":null,
      "usage":{"input_tokens":24,"cache_creation_input_tokens":0,"cache_read_input_tokens":96,"output_tokens":3,
        "output_tokens_details":{"thinking_tokens":0},"server_tool_use":null,"service_tier":"standard",
        "cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}})"));
}

TEST_F(AnthropicTest, AStreamIsTheTranscriptOfTheSpecification) {
  service_.play(
      {text_event("<think>Use the"), text_event(" tool.</think>"), text_event("Checking."),
       text_event("<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os"),
       text_event("lo\"}}</tool_call>"),
       last_event(FinishReason::kStop, {.prompt_tokens = 120, .cached_tokens = 96, .completion_tokens = 30})});
  const HttpReply reply = ask_streamed(message_body(with_tools(kThinking)));
  EXPECT_EQ(reply.header("Content-Type"), "text/event-stream");
  EXPECT_EQ(reply.header("Cache-Control"), "no-cache");
  EXPECT_TRUE(reply.header("request-id").starts_with("req_"));
  EXPECT_TRUE(reply.is_complete);
  std::vector<Json> events = anthropic_events(reply.body);
  ASSERT_EQ(events.size(), 15u);
  const auto n_prompt = service_.next_stream()->request.prompt.size();
  events[0]["message"].erase("id");
  EXPECT_TRUE(events[9]["content_block"]["id"].get<std::string>().starts_with("toolu_01"));
  events[9]["content_block"].erase("id");
  const std::string expected[] = {
      fmt::format(R"({{"type":"message_start","message":{{"type":"message","role":"assistant","model":"claude-x",)"
                  R"("content":[],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":{},)"
                  R"("cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}}}})",
                  n_prompt),
      R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}})",
      R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Use the"}})",
      R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" tool."}})",
      R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"dDk="}})",
      R"({"type":"content_block_stop","index":0})",
      R"({"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}})",
      R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Checking."}})",
      R"({"type":"content_block_stop","index":1})",
      R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use","name":"weather","input":{}}})",
      R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\": \"Os"}})",
      R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"lo\"}"}})",
      R"({"type":"content_block_stop","index":2})",
      R"({"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":24,)"
      R"("cache_creation_input_tokens":0,"cache_read_input_tokens":96,"output_tokens":30,)"
      R"("output_tokens_details":{"thinking_tokens":0}}})",
      R"({"type":"message_stop"})"};
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].dump(), expected[i]);
}

TEST_F(AnthropicTest, TheStreamBeginsBeforeTheFirstToken) {
  HttpClient client(port());
  client.request("POST", "/v1/messages", message_body(R"("stream":true)"));
  EXPECT_EQ(client.read_head().status, 200);
  EXPECT_TRUE(client.read_chunk()->starts_with("event: message_start\n"));
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  stream->push(text_event("now"));
  EXPECT_NE(client.read_chunk()->find(R"("text":"now")"), std::string::npos);
}

TEST_F(AnthropicTest, ASilentStreamIsKeptAliveByPings) {
  restart({.keep_alive_interval = std::chrono::milliseconds(5)});
  HttpClient client(port());
  client.request("POST", "/v1/messages", message_body(R"("stream":true)"));
  client.read_head();
  client.read_chunk();
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.read_chunk(), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  stream->push(text_event("x"));
  stream->push(last_event(FinishReason::kStop));
  std::string rest;
  while (const auto chunk = client.read_chunk()) rest += *chunk;
  EXPECT_NE(rest.find("message_stop"), std::string::npos);
}

TEST_F(AnthropicTest, AClientThatLeavesCancelsItsRequest) {
  for (const char* fields : {"", R"("stream":true)"}) {
    HttpClient client(port());
    client.request("POST", "/v1/messages", message_body(fields));
    const auto stream = service_.next_stream();
    ASSERT_TRUE(stream);
    client.reset();
    EXPECT_TRUE(stream->wait_cancelled()) << fields;
  }
}

TEST_F(AnthropicTest, ThinkingTextAndParallelCallsKeepTheirOrder) {
  service_.answer_with({"<think>\nLook", " it up.\n</think>\n\nOne ", "moment.\n", std::string(kCall), "\n",
                        "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"R\\u00f6m\"}}</tool_call>"});
  const Json message = both(message_body(with_tools(kThinking)));
  const Json& content = message["content"];
  ASSERT_EQ(content.size(), 4u);
  EXPECT_EQ(content[0], Json::parse(R"({"type":"thinking","thinking":"Look it up.","signature":"dDk="})"));
  EXPECT_EQ(content[1], Json::parse(R"({"type":"text","text":"One moment."})"));
  EXPECT_EQ(content[2]["name"], "weather");
  EXPECT_EQ(content[2]["input"], Json::parse(R"({"city":"Oslo","days":3})"));
  EXPECT_EQ(content[3]["input"], Json::parse(R"({"city":"R\u00f6m"})"));
  EXPECT_EQ(message["stop_reason"], "tool_use");
}

TEST_F(AnthropicTest, IdsAreUniqueAndOfTheApisForm) {
  service_.answer_with({std::string(kCall) + std::string(kCall)});
  std::set<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    const std::string body = message_body(with_tools());
    for (const Json& message : {whole(body), joined_message(ask_streamed(body).body)}) {
      for (const Json& block : message["content"]) ids.insert(block["id"].get<std::string>());
    }
  }
  EXPECT_EQ(ids.size(), 20u);
  for (const std::string& id : ids) {
    EXPECT_TRUE(id.starts_with("toolu_01"));
    EXPECT_EQ(id.size(), 8u + 22u);
  }
}

TEST_F(AnthropicTest, ACallWithoutArgumentsHasAnEmptyObject) {
  service_.answer_with({R"(<tool_call>{"name": "weather", "arguments": {}}</tool_call>)"});
  EXPECT_EQ(both(message_body(with_tools()))["content"][0]["input"], Json::object());
}

TEST_F(AnthropicTest, NumbersInArgumentsKeepTheirDigits) {
  service_.answer_with({R"(<tool_call>{"name": "weather", "arguments": {"x": {"a": 123456789012345678901234567890,)"
                        R"( "b": 1.10}}}</tool_call>)"});
  const std::string body = ask(message_body(with_tools())).body;
  EXPECT_NE(body.find("123456789012345678901234567890"), std::string::npos) << body;
  EXPECT_NE(body.find("1.10"), std::string::npos) << body;
}

TEST_F(AnthropicTest, OneCallIsEnoughWhenTheClientSaysSo) {
  service_.answer_with({std::string(kCall), std::string(kCall), "more"});
  const Json message =
      both(message_body(with_tools(R"("tool_choice":{"type":"auto","disable_parallel_tool_use":true})")));
  EXPECT_EQ(message["content"].size(), 1u);
  EXPECT_EQ(message["stop_reason"], "tool_use");
  EXPECT_TRUE(service_.next_stream()->wait_cancelled());
}

TEST_F(AnthropicTest, ThinkingThatIsNotAskedForIsLeftOut) {
  service_.answer_with({"<think>Hm.</think>Yes."});
  for (const char* fields : {"", R"("thinking":{"type":"disabled"})", R"("output_config":{"effort":"high"})"}) {
    const Json content = both(message_body(fields))["content"];
    EXPECT_EQ(content, Json::parse(R"([{"type":"text","text":"Yes."}])")) << fields;
  }
  for (const char* type : {"enabled", "adaptive", "between_tools"}) {
    EXPECT_EQ(both(message_body(fmt::format(R"("thinking":{{"type":"{}"}})", type)))["content"][0]["thinking"], "Hm.");
  }
  service_.answer_with({"Just text."});
  EXPECT_EQ(both(message_body(kThinking))["content"].size(), 1u) << "a model that does not think is no error";
}

TEST_F(AnthropicTest, OmittedThinkingIsABlockWithoutText) {
  service_.answer_with({"<think>Hm.</think>Yes."});
  const Json content = both(message_body(R"("thinking":{"type":"adaptive","display":"omitted"})"))["content"];
  EXPECT_EQ(content[0], Json::parse(R"({"type":"thinking","thinking":"","signature":"dDk="})"));
  EXPECT_EQ(content[1]["text"], "Yes.");
}

TEST_F(AnthropicTest, EveryStopReasonHasItsName) {
  const auto reason = [&](std::string_view fields, int64_t n_tokens, FinishReason finish,
                          std::vector<std::string> texts = {"abc"}) {
    service_.play(counted(texts, last_event(finish, {.prompt_tokens = 5, .completion_tokens = n_tokens})));
    return both(message_body(fields));
  };
  EXPECT_EQ(reason("", 7, FinishReason::kStop)["stop_reason"], "end_turn");
  EXPECT_EQ(reason("", 100, FinishReason::kLength)["stop_reason"], "max_tokens");
  EXPECT_EQ(reason("", 99, FinishReason::kLength)["stop_reason"], "model_context_window_exceeded");
  EXPECT_EQ(reason(with_tools(), 7, FinishReason::kStop, {std::string(kCall)})["stop_reason"], "tool_use");
  const Json stopped = reason(R"("stop_sequences":["never","bc"])", 7, FinishReason::kStop);
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "bc");
  EXPECT_EQ(stopped["content"][0]["text"], "a");
  EXPECT_TRUE(reason("", 7, FinishReason::kStop)["stop_sequence"].is_null());
}

TEST_F(AnthropicTest, NothingIsALegalAnswer) {
  service_.answer_with({});
  const Json message = both(message_body());
  EXPECT_EQ(message["content"], Json::array());
  EXPECT_EQ(message["stop_reason"], "end_turn");
}

TEST_F(AnthropicTest, ACallThatBreaksOffStaysBroken) {
  service_.answer_with({"<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os"}, FinishReason::kLength);
  AnthropicAccumulator streamed;
  for (const Json& event : anthropic_events(ask_streamed(message_body(with_tools())).body)) streamed.add(event);
  EXPECT_EQ(streamed.message()["content"][0]["type"], "tool_use");
  EXPECT_EQ(streamed.input_text(), "{\"city\": \"Os");
  // An object cannot be half of one.
  const Json message = whole(message_body(with_tools()));
  EXPECT_EQ(message["content"], Json::parse(R"([{"type":"text","text":"{\"city\": \"Os"}])"));

  service_.answer_with({"<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os"});
  EXPECT_EQ(joined_message(ask_streamed(message_body(with_tools())).body)["stop_reason"], "tool_use");
  EXPECT_EQ(whole(message_body(with_tools()))["stop_reason"], "end_turn") << "there is no call in it";
}

TEST_F(AnthropicTest, ACallThatBreaksOffBeforeItsArgumentsIsNoCall) {
  for (const FinishReason finish : {FinishReason::kLength, FinishReason::kStop}) {
    service_.answer_with({"<tool_call>{\"name\": \"weather\", \"arg"}, finish);
    const Json message = both(message_body(with_tools()));
    EXPECT_EQ(message["content"], Json::array());
    EXPECT_NE(message["stop_reason"], "tool_use");
  }
}

TEST_F(AnthropicTest, ThinkingTokensAreCountedAsOutput) {
  service_.play(counted({"<think>", "a", "b", "</think>", "c", "d"},
                        last_event(FinishReason::kStop, {.prompt_tokens = 2, .completion_tokens = 6})));
  const Json usage = both(message_body())["usage"];
  EXPECT_EQ(usage["output_tokens"], 6);
  EXPECT_EQ(usage["output_tokens_details"]["thinking_tokens"], 4);
}

TEST_F(AnthropicTest, AnErrorInMidStreamIsAnEventAndNoEnd) {
  service_.play({text_event("Par"), failed_event(Error(ErrorCode::kInternal, "engine failed"))});
  const HttpReply reply = ask_streamed(message_body());
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.is_complete);
  const std::vector<Json> events = anthropic_events(reply.body);
  EXPECT_EQ(events.back().dump(), R"({"type":"error","error":{"type":"api_error","message":"engine failed"}})");
  EXPECT_EQ(reply.body.find("message_stop"), std::string::npos);
  const HttpReply refused = ask(message_body());
  EXPECT_EQ(refused.status, 500);
  EXPECT_EQ(parse(refused.body)["error"]["type"], "api_error");
}

Json as_anthropic(const Json& tools) {
  Json list = Json::array();
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    list.push_back({{"name", function["name"]}, {"input_schema", function.value("parameters", Json::object())}});
  }
  return list;
}

// Every text of the collection, cut at random: a client gets the same whether it streams or not.
TEST_F(AnthropicTest, JoinedStreamsEqualWholeAnswersInEveryDialect) {
  for_each_tool_case(7, [&](const Json& item, const Json& tools, bool) {
    const std::string body = message_body(fmt::format("{},\"tools\":{}", kThinking, as_anthropic(tools).dump()));
    const Json message = whole(body);
    Json joined = joined_message(ask_streamed(body).body);
    // A call that broke off is the one thing that the two forms cannot say alike.
    const auto is_broken = [](const Json& block) { return block.contains("input") && !block["input"].is_object(); };
    if (std::ranges::any_of(joined["content"], is_broken)) return;
    EXPECT_EQ(comparable(joined), comparable(message));
    std::string content;
    for (const Json& block : message["content"]) content += block.value("text", "");
    if (item.contains("start")) return;
    EXPECT_EQ(content, item["expect"]["content"]);
  });
}

}  // namespace
}  // namespace tempo9::testing
