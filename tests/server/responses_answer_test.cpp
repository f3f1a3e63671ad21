// What becomes of a model's text on /v1/responses: items, events, statuses, usage. Spec api 4.4 to 4.8.
#include <fmt/format.h>

#include <set>

#include "base/base64.h"
#include "server/responses_support.h"

namespace tempo9::testing {
namespace {

using engine::FinishReason;

constexpr std::string_view kResponsesTools = R"("tools":[{"type":"function","name":"weather","parameters":
    {"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}])";
constexpr std::string_view kResponsesCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": \"3\"}}\n</tool_call>";
constexpr std::string_view kSummary = R"("reasoning":{"summary":"auto"})";

std::string with_tools(std::string_view fields = {}) {
  return fmt::format("{}{}{}", kResponsesTools, fields.empty() ? "" : ",", fields);
}

// A call of a tool in the hermes-json form.
std::string call_of(std::string_view name, std::string_view arguments) {
  return fmt::format("<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>", name, arguments);
}

TEST_F(ResponsesTest, AWholeAnswerHasTheShapeOfTheSpecification) {
  service_.play(counted_events(
      {"Par", "is."},
      last_event(FinishReason::kStop, {.prompt_tokens = 120, .cached_tokens = 96, .completion_tokens = 3})));
  const HttpReply reply = ask(input_body(R"("metadata":{"a":"b"},"prompt_cache_key":"k","max_tool_calls":3)"));
  EXPECT_TRUE(reply.header("Content-Type").starts_with("application/json"));
  EXPECT_TRUE(reply.header("x-request-id").starts_with("req_"));
  Json body = parse(reply.body);
  const std::string id = body["id"];
  EXPECT_TRUE(id.starts_with("resp_"));
  EXPECT_EQ(id.size(), 5u + 32u);
  EXPECT_TRUE(body["created_at"].is_number_integer());
  EXPECT_GE(body["completed_at"], body["created_at"]);
  const std::string item_id = body["output"][0]["id"];
  EXPECT_TRUE(item_id.starts_with("msg_"));
  EXPECT_EQ(item_id.size(), 4u + 32u);
  EXPECT_EQ(nlohmann::json::parse(comparable_response(body).dump()), nlohmann::json::parse(R"({
      "object":"response","status":"completed","error":null,"incomplete_details":null,"model":"gpt-x",
      "instructions":null,"previous_response_id":null,
      "output":[{"type":"message","role":"assistant","status":"completed",
        "content":[{"type":"output_text","text":"Paris.","annotations":[],"logprobs":[]}]}],
      "parallel_tool_calls":true,"tool_choice":"auto","tools":[],"temperature":1.0,"top_p":1.0,"top_logprobs":0,
      "max_output_tokens":null,"max_tool_calls":3,"truncation":"disabled","store":true,"background":false,
      "reasoning":{"effort":null,"summary":null},"text":{"format":{"type":"text"}},"service_tier":"default",
      "metadata":{"a":"b"},"user":null,"safety_identifier":null,"prompt_cache_key":"k",
      "usage":{"input_tokens":120,"input_tokens_details":{"cached_tokens":96,"cache_write_tokens":0},
        "output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":123}})"));
}

TEST_F(ResponsesTest, AStreamHasTheEventsOfTheSpecificationInTheirOrder) {
  service_.answer_with({"<think>List the", " folder.</think>", "Looking now.",
                        "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os", "lo\"}}</tool_call>"});
  const HttpReply reply =
      ask_streamed(input_body(with_tools(std::string(kSummary) + R"(,"include":["reasoning.encrypted_content"])")));
  EXPECT_EQ(reply.header("Content-Type"), "text/event-stream");
  EXPECT_EQ(reply.header("Cache-Control"), "no-cache");
  EXPECT_TRUE(reply.header("x-request-id").starts_with("req_"));
  EXPECT_TRUE(reply.is_complete);
  std::vector<std::string> types;
  for (const Json& event : responses_events(reply.body)) types.push_back(event["type"]);
  const std::vector<std::string> expected = {"response.created",
                                             "response.in_progress",
                                             "response.output_item.added",
                                             "response.reasoning_summary_part.added",
                                             "response.reasoning_summary_text.delta",
                                             "response.reasoning_summary_text.delta",
                                             "response.reasoning_summary_text.done",
                                             "response.reasoning_summary_part.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.content_part.added",
                                             "response.output_text.delta",
                                             "response.output_text.done",
                                             "response.content_part.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.function_call_arguments.delta",
                                             "response.function_call_arguments.delta",
                                             "response.function_call_arguments.done",
                                             "response.output_item.done",
                                             "response.completed"};
  EXPECT_EQ(types, expected);
  const Json output = joined_response(reply.body)["output"];
  EXPECT_EQ(output[0]["summary"], Json::parse(R"([{"type":"summary_text","text":"List the folder."}])"));
  EXPECT_EQ(output[0]["encrypted_content"], "dDk6TGlzdCB0aGUgZm9sZGVyLg==") << "the specification's example";
  EXPECT_FALSE(output[0].contains("content"));
  EXPECT_EQ(output[2]["name"], "weather");
  EXPECT_EQ(output[2]["arguments"], R"({"city": "Oslo"})");
}

TEST_F(ResponsesTest, TheStreamBeginsBeforeTheFirstToken) {
  HttpClient client(port());
  client.request("POST", "/v1/responses", input_body(R"("stream":true)"));
  EXPECT_EQ(client.read_head().status, 200);
  const auto first = client.read_chunk();
  EXPECT_TRUE(first->starts_with("event: response.created\n"));
  EXPECT_NE(first->find("event: response.in_progress\n"), std::string::npos);
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  stream->push(text_event("now"));
  EXPECT_NE(client.read_chunk()->find(R"("delta":"now")"), std::string::npos);
}

// Codex counts no comment as a sign of life, and the official library no event without a number (spec api 1.4).
TEST_F(ResponsesTest, ASilentStreamIsKeptAliveByNumberedEvents) {
  restart({.keep_alive_interval = std::chrono::milliseconds(5)});
  HttpClient client(port());
  client.request("POST", "/v1/responses", input_body(R"("stream":true)"));
  client.read_head();
  std::string body = *client.read_chunk();
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  for (int i = 0; i < 3; ++i) {
    body += *client.read_chunk();
    EXPECT_TRUE(body.ends_with(
        fmt::format("event: keepalive\ndata: {{\"type\":\"keepalive\",\"sequence_number\":{}}}\n\n", 2 + i)));
  }
  stream->push(text_event("x"));
  stream->push(last_event(FinishReason::kStop));
  while (const auto chunk = client.read_chunk()) body += *chunk;
  EXPECT_EQ(joined_response(body)["output"][0]["content"][0]["text"], "x");
}

TEST_F(ResponsesTest, AClientThatLeavesCancelsItsRequest) {
  for (const char* fields : {"", R"("stream":true)"}) {
    HttpClient client(port());
    client.request("POST", "/v1/responses", input_body(fields));
    const auto stream = service_.next_stream();
    ASSERT_TRUE(stream);
    client.reset();
    EXPECT_TRUE(stream->wait_cancelled()) << fields;
  }
}

TEST_F(ResponsesTest, ReasoningIsASummaryOrContentAndNeverBoth) {
  service_.answer_with({"<think>\nHm", ".\n</think>\n\nYes."});
  for (const char* summary : {"auto", "concise", "detailed"}) {
    for (const char* name : {"summary", "generate_summary"}) {
      const Json item = both(input_body(fmt::format(R"("reasoning":{{"{}":"{}"}})", name, summary)))["output"][0];
      EXPECT_EQ(item["summary"][0]["text"], "Hm.");
      EXPECT_FALSE(item.contains("content"));
    }
  }
  for (const char* fields : {"", R"("reasoning":null)", R"("reasoning":{"effort":"high","summary":null})"}) {
    const Json item = both(input_body(fields))["output"][0];
    EXPECT_EQ(item["summary"], Json::array());
    EXPECT_EQ(item["content"], Json::parse(R"([{"type":"reasoning_text","text":"Hm."}])"));
    EXPECT_FALSE(item.contains("encrypted_content"));
  }
  const Json sealed = both(input_body(R"("include":["reasoning.encrypted_content","file_search_call.results"])"));
  EXPECT_EQ(decode_base64(sealed["output"][0]["encrypted_content"].get<std::string>()), "t9:Hm.");
}

TEST_F(ResponsesTest, ReasoningThatIsSwitchedOffIsLeftOut) {
  service_.answer_with({"<think>Hm.</think>Yes."});
  for (const char* fields : {R"("reasoning":{"effort":"none"})", R"("enable_thinking":false)",
                             R"("chat_template_kwargs":{"enable_thinking":false})"}) {
    const Json output = both(input_body(fields))["output"];
    ASSERT_EQ(output.size(), 1u) << fields;
    EXPECT_EQ(output[0]["content"][0]["text"], "Yes.");
  }
}

TEST_F(ResponsesTest, ParallelCallsAreItemsOfTheirOwn) {
  service_.answer_with(
      {"One ", "moment.\n", std::string(kResponsesCall), "\n", call_of("weather", R"({"city": "R\u00f6m"})")});
  const Json output = both(input_body(with_tools()))["output"];
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0]["content"][0]["text"], "One moment.");
  EXPECT_EQ(Json::parse(output[1]["arguments"].get<std::string>()), Json::parse(R"({"city":"Oslo","days":3})"));
  EXPECT_EQ(Json::parse(output[2]["arguments"].get<std::string>()), Json::parse(R"({"city":"R\u00f6m"})"));
  EXPECT_EQ(output[1]["status"], "completed");
}

TEST_F(ResponsesTest, OneCallIsEnoughWhenTheClientSaysSo) {
  service_.answer_with({std::string(kResponsesCall), std::string(kResponsesCall), "more"});
  const Json response = both(input_body(with_tools(R"("parallel_tool_calls":false)")));
  EXPECT_EQ(response["output"].size(), 1u);
  EXPECT_EQ(response["parallel_tool_calls"], false);
  EXPECT_TRUE(service_.next_stream()->wait_cancelled());
}

TEST_F(ResponsesTest, IdsAreUniqueAndOfTheApisForm) {
  service_.answer_with({"<think>a</think>b" + std::string(kResponsesCall) + std::string(kResponsesCall)});
  std::set<std::string> ids;
  for (int i = 0; i < 4; ++i) {
    const std::string body = input_body(with_tools());
    for (const Json& response : {whole(body), joined_response(ask_streamed(body).body)}) {
      ids.insert(response["id"]);
      for (const Json& item : response["output"]) {
        ids.insert(item["id"]);
        if (item["type"] != "function_call") continue;
        EXPECT_TRUE(item["id"].get<std::string>().starts_with("fc_"));
        EXPECT_EQ(item["call_id"].get<std::string>().size(), 5u + 24u);
        ids.insert(item["call_id"]);
      }
    }
  }
  EXPECT_EQ(ids.size(), 8u * 7u);
}

// Field reports D01, D04: what Codex declares. It rejects a bare or a dotted name and takes only the pair.
TEST_F(ResponsesTest, CallsGoBackToTheToolThatTheClientKnows) {
  const std::string tools = R"("tools":[
      {"type":"function","name":"exec_command","description":"runs","strict":false,"parameters":{"type":"object",
        "properties":{"cmd":{"type":"string"},"yield_time_ms":{"type":"number"}},"required":["cmd"]}},
      {"type":"namespace","name":"multi_agent_v1","description":"agents","tools":[
        {"type":"function","name":"spawn","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}},
        {"type":"custom","name":"note","description":"notes"}]},
      {"type":"custom","name":"apply_patch","description":"patches","format":{"type":"grammar","syntax":"lark",
        "definition":"start: \"x\""}},
      {"type":"web_search"},{"type":"image_generation"},{"type":"mcp","server_label":"x"},{"type":"brand_new","q":1}])";
  const auto item = [&](const std::string& call) {
    service_.answer_with({call.substr(0, call.size() / 2), call.substr(call.size() / 2)});
    const Json output = both(input_body(tools))["output"];
    EXPECT_EQ(output.size(), 1u);
    return output[0];
  };
  const Json plain = item(call_of("exec_command", R"({"cmd": "ls", "yield_time_ms": "500"})"));
  EXPECT_EQ(plain["name"], "exec_command");
  EXPECT_FALSE(plain.contains("namespace"));
  EXPECT_EQ(Json::parse(plain["arguments"].get<std::string>())["yield_time_ms"], 500);

  for (const char* name : {"multi_agent_v1__spawn", "multi_agent_v1.spawn", "spawn"}) {
    const Json spawn = item(call_of(name, R"({"n": "2"})"));
    EXPECT_EQ(spawn["type"], "function_call");
    EXPECT_EQ(spawn["name"], "spawn") << name;
    EXPECT_EQ(spawn.value("namespace", ""), "multi_agent_v1") << name;
    EXPECT_EQ(Json::parse(spawn["arguments"].get<std::string>())["n"], 2) << "typed by its schema";
  }

  const Json patch = item(call_of("apply_patch", R"({"input": "*** Begin\n+\"a\"\n*** End"})"));
  EXPECT_EQ(patch["type"], "custom_tool_call");
  EXPECT_TRUE(patch["id"].get<std::string>().starts_with("ctc_"));
  EXPECT_EQ(patch["name"], "apply_patch");
  EXPECT_EQ(patch["input"], "*** Begin\n+\"a\"\n*** End");
  EXPECT_EQ(item(call_of("note", R"("free text")"))["input"], "free text");
  EXPECT_EQ(item(call_of("note", R"({"input": "x"})"))["namespace"], "multi_agent_v1");

  const Json unknown = item(call_of("no_such", R"({"a": 1})"));
  EXPECT_EQ(unknown["type"], "function_call");
  EXPECT_EQ(unknown["name"], "no_such") << "the client says that it knows none";
  EXPECT_EQ(both(input_body(tools))["tools"].size(), 7u) << "all that was declared is echoed";
}

TEST_F(ResponsesTest, LocalShellCallsHaveAnAction) {
  const std::string tools = R"("tools":[{"type":"local_shell"}])";
  service_.answer_with(
      {call_of("local_shell", R"({"command": ["ls", "-l"], "workdir": "/tmp", "timeout_ms": "100"})")});
  const Json item = both(input_body(tools))["output"][0];
  EXPECT_EQ(item["type"], "local_shell_call");
  EXPECT_EQ(item["action"], Json::parse(R"({"type":"exec","command":["ls","-l"],"env":{},"working_directory":"/tmp",
      "timeout_ms":100})"));
  service_.answer_with({call_of("local_shell", R"({"command": "ls"})")});
  const Json other = both(input_body(tools))["output"][0];
  EXPECT_EQ(other["type"], "function_call") << "no command: the client says what is wrong with it";
  EXPECT_EQ(other["arguments"], R"({"command": "ls"})");
}

TEST_F(ResponsesTest, ALimitLeavesTheResponseIncomplete) {
  const auto cut = [&](const std::vector<std::string>& texts) {
    service_.answer_with(texts, FinishReason::kLength);
    Json response = both(input_body(with_tools()));
    EXPECT_EQ(response["status"], "incomplete");
    EXPECT_EQ(response["incomplete_details"], Json::parse(R"({"reason":"max_output_tokens"})"));
    EXPECT_FALSE(response.contains("completed_at"));
    return response["output"];
  };
  EXPECT_EQ(cut({"abc"})[0]["status"], "incomplete");
  const Json thought = cut({"<think>Consider"});
  ASSERT_EQ(thought.size(), 1u) << "all of it is reasoning (field report I01)";
  EXPECT_EQ(thought[0]["status"], "incomplete");
  EXPECT_EQ(thought[0]["content"][0]["text"], "Consider");
  const Json call = cut({"a", "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os"});
  EXPECT_EQ(call[0]["status"], "completed");
  EXPECT_EQ(call[1]["status"], "incomplete");
  EXPECT_EQ(call[1]["arguments"], R"({"city": "Os)") << "never closed: a half command must not run";
  EXPECT_EQ(cut({std::string(kResponsesCall)})[0]["status"], "completed");
  EXPECT_EQ(cut({}), Json::array());
}

TEST_F(ResponsesTest, ACallThatBreaksOffByItselfIsIncompleteInACompletedResponse) {
  service_.answer_with({"<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os"});
  const Json response = both(input_body(with_tools()));
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
  service_.answer_with({R"(<tool_call>{"name": "apply", "arguments": {"input": "a\u00fc b)"}, FinishReason::kLength);
  const Json custom = both(input_body(R"("tools":[{"type":"custom","name":"apply"}])"))["output"][0];
  EXPECT_EQ(custom["status"], "incomplete");
  EXPECT_EQ(custom["input"], "a\xC3\xBC b");
}

TEST_F(ResponsesTest, NothingIsALegalAnswer) {
  service_.answer_with({});
  EXPECT_EQ(both(input_body())["output"], Json::array());
  service_.answer_with({"<think>only this"});
  EXPECT_EQ(both(input_body())["output"].size(), 1u);
}

TEST_F(ResponsesTest, ReasoningTokensAreCountedAsOutput) {
  service_.play(counted_events({"<think>", "a", "b", "</think>", "c", "d"},
                               last_event(FinishReason::kStop, {.prompt_tokens = 2, .completion_tokens = 6})));
  const Json usage = both(input_body())["usage"];
  EXPECT_EQ(usage["output_tokens"], 6);
  EXPECT_EQ(usage["output_tokens_details"]["reasoning_tokens"], 4);
  EXPECT_EQ(usage["total_tokens"], 8);
}

TEST_F(ResponsesTest, LogprobsStandWithTheirText) {
  std::vector<engine::Event> events;
  for (const char* text : {"<think>", "t", "</think>", "a", "b"}) {
    engine::Event event = text_event(text);
    event.tokens = {1};
    engine::TokenInfo info{.chosen = {.token = text[0], .logprob = -0.5f}, .top = {}, .bytes = text};
    info.top = {{.token = 'a', .logprob = -0.5f}, {.token = 'z', .logprob = -2.0f}};
    event.logprobs.push_back(std::move(info));
    events.push_back(std::move(event));
  }
  events.push_back(last_event(FinishReason::kStop));
  service_.play(std::move(events));
  const std::string fields = R"("include":["message.output_text.logprobs"],"top_logprobs":2)";
  const Json response = both(input_body(fields));
  const Json& part = response["output"][1]["content"][0];
  ASSERT_EQ(part["logprobs"].size(), 2u);
  EXPECT_EQ(part["logprobs"][0], Json::parse(R"({"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[
      {"token":"a","logprob":-0.5,"bytes":[97]},{"token":"z","logprob":-2.0,"bytes":[122]}]})"));
  EXPECT_EQ(part["logprobs"][1]["token"], "b");
  EXPECT_EQ(response["top_logprobs"], 2);
  const auto stream = service_.next_stream();
  EXPECT_TRUE(stream->request.logprobs);
  EXPECT_EQ(stream->request.top_logprobs, 2);
}

// Field report D26. Codex ignores the bare error event, and takes a stream that just ends for a lost connection.
TEST_F(ResponsesTest, AnErrorInMidStreamIsAFailedResponse) {
  service_.play({text_event("Par"), failed_event(Error(ErrorCode::kInternal, "engine failed"))});
  const HttpReply reply = ask_streamed(input_body());
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.is_complete);
  const Json last = responses_events(reply.body).back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["status"], "failed");
  EXPECT_EQ(last["response"]["error"], Json::parse(R"({"code":"server_error","message":"engine failed"})"));
  EXPECT_TRUE(last["response"]["usage"].is_null());
  const HttpReply refused = ask(input_body());
  EXPECT_EQ(refused.status, 500);
  EXPECT_EQ(parse(refused.body)["error"]["type"], "server_error");
  service_.play({failed_event(Error(ErrorCode::kOutOfCapacity, "no pages"))});
  EXPECT_EQ(joined_response(ask_streamed(input_body()).body)["error"]["code"], "rate_limit_exceeded");
}

// Field report D06: what a client goes on from is there, in whichever form it was answered.
TEST_F(ResponsesTest, AResponseCanBeGoneOnFrom) {
  service_.answer_with({"<think>Hm.</think>Sure.", std::string(kResponsesCall)});
  // The template shows no calls, so that they are put into the text.
  const std::string after_call =
      "<s><turn>user:hi<turn>assistant:Sure.\n<tool_call>\n{\"name\":\"weather\",\"arguments\":"
      "{\"city\":\"Oslo\",\"days\":3}}\n</tool_call><turn>tool:Rain.<turn>assistant:";
  for (const bool streams : {false, true}) {
    const std::string first = input_body(with_tools(R"("instructions":"Be brief.")"));
    const Json response = streams ? joined_response(ask_streamed(first).body) : whole(first);
    service_.next_stream();
    const std::string id = response["id"];
    const std::string result = fmt::format(R"([{{"type":"function_call_output","call_id":{},"output":"Rain."}}])",
                                           response["output"][2]["call_id"].dump());
    const std::string second = input_body(fmt::format(R"("previous_response_id":"{}")", id), result);
    const Json next = whole(second);
    EXPECT_EQ(next["previous_response_id"], id);
    EXPECT_EQ(tokenizer_.decode(service_.next_stream()->request.prompt, true), after_call)
        << "instructions and tools are those of the request alone";
    const std::string third = fmt::format(R"({{"input":"Go on.","previous_response_id":{}}})", next["id"].dump());
    EXPECT_EQ(prompt_of(third),
              after_call + "Sure." + std::string(kResponsesCall) + "<turn>user:Go on.<turn>assistant:")
        << "without tools, the markup of a call is text";
    EXPECT_EQ(prompt_of(fmt::format(R"({{"previous_response_id":"{}"}})", id)).find("<s><turn>user:hi"), 0u)
        << "input may be left out";
  }
}

TEST_F(ResponsesTest, WhatIsNotStoredIsNotFound) {
  service_.answer_with({"x"});
  const Json response = both(input_body(R"("store":false)"));
  EXPECT_EQ(response["store"], false);
  const std::string id = response["id"];
  const HttpReply reply = ask(input_body(fmt::format(R"("previous_response_id":"{}")", id)));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(parse(reply.body)["error"],
            Json::parse(fmt::format(R"({{"message":"Previous response with id '{}' not found.",
                "type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}})",
                                    id)));
  EXPECT_EQ(get("/v1/responses/" + id).status, 404);
}

TEST_F(ResponsesTest, StoredResponsesAreShownAndDeleted) {
  service_.answer_with({"x"});
  for (const bool streams : {false, true}) {
    const Json response = streams ? joined_response(ask_streamed(input_body()).body) : whole(input_body());
    const std::string path = "/v1/responses/" + response["id"].get<std::string>();
    const HttpReply shown = get(path);
    EXPECT_EQ(shown.status, 200);
    EXPECT_TRUE(shown.header("x-request-id").starts_with("req_"));
    EXPECT_EQ(parse(shown.body), response);
    const HttpReply deleted = http_request(port(), "DELETE", path);
    EXPECT_EQ(parse(deleted.body),
              Json::parse(fmt::format(R"({{"id":{},"object":"response","deleted":true}})", response["id"].dump())));
    EXPECT_EQ(get(path).status, 404);
    const HttpReply again = http_request(port(), "DELETE", path);
    EXPECT_EQ(again.status, 404);
    EXPECT_EQ(parse(again.body)["error"]["code"], "response_not_found");
  }
  EXPECT_EQ(post("/v1/responses/resp_1", "{}").status, 405);
  EXPECT_EQ(get("/v1/responses").status, 405);
}

TEST_F(ResponsesTest, AnItemMayBeReferredTo) {
  service_.answer_with({"Said."});
  const Json response = whole(input_body());
  service_.next_stream();
  const std::string input = fmt::format(R"([{{"role":"user","content":"q"}},{{"type":"item_reference","id":{}}},
      {{"type":"item_reference","id":"msg_none"}},{{"role":"user","content":"r"}}])",
                                        response["output"][0]["id"].dump());
  EXPECT_EQ(prompt_of(input_body({}, input)), "<s><turn>user:q<turn>assistant:Said.<turn>user:r<turn>assistant:");
}

Json as_functions(const Json& tools) {
  Json list = Json::array();
  for (const Json& tool : tools) {
    Json function = tool["function"];
    function["type"] = "function";
    list.push_back(std::move(function));
  }
  return list;
}

// Every text of the collection, cut at random: a client gets the same whether it streams or not.
TEST_F(ResponsesTest, JoinedStreamsEqualWholeAnswersInEveryDialect) {
  for_each_tool_case(11, [&](const Json& item, const Json& tools, bool) {
    const Json response = both(input_body(fmt::format("\"tools\":{}", as_functions(tools).dump())));
    if (item.contains("start")) return;
    std::string content;
    Json calls = Json::array();
    for (const Json& output : response["output"]) {
      if (output["type"] == "message") content += output["content"][0]["text"].get<std::string>();
      if (output["type"] == "function_call") calls.push_back(output["name"]);
    }
    EXPECT_EQ(content, item["expect"]["content"]);
    Json expected = Json::array();
    for (const Json& call : item["expect"].value("calls", Json::array())) expected.push_back(call["name"]);
    EXPECT_EQ(calls, expected);
  });
}

}  // namespace
}  // namespace tempo9::testing
