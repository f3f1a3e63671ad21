// What /api/chat and /api/generate send back.
#include <set>

#include "server/ollama_support.h"

namespace tempo9::testing {
namespace {

using engine::FinishReason;

constexpr std::string_view kTools = R"("tools":[{"type":"function","function":{"name":"weather","parameters":
    {"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}}])";
constexpr std::string_view kCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": \"3\"}}\n</tool_call>";

engine::Usage some_usage() {
  return {.prompt_tokens = 7, .cached_tokens = 3, .completion_tokens = 2, .prefill_ms = 1.5, .decode_ms = 2.25};
}

TEST_F(OllamaTest, StreamsByDefault) {
  service_.answer_with({"Hel", "lo"});
  const HttpReply reply = ask(message_body());
  EXPECT_EQ(reply.header("Content-Type"), "application/x-ndjson");
  EXPECT_EQ(reply.header("Cache-Control"), "no-cache");
  EXPECT_EQ(ndjson_lines(reply.body).size(), 3u);
  const HttpReply object = ask(message_body(R"("stream":false)"));
  EXPECT_NE(object.header("Content-Type").find("application/json"), std::string::npos);
  EXPECT_EQ(parse(object.body)["message"]["content"], "Hello");
}

TEST_F(OllamaTest, DurationsAreNanosecondsAndCountsAreWhole) {
  service_.play({text_event("Hi"), last_event(FinishReason::kStop, some_usage())});
  const Json reply = both(message_body());
  EXPECT_EQ(reply["done_reason"], "stop");
  EXPECT_EQ(reply["prompt_eval_count"], 7) << "with what was cached";
  EXPECT_EQ(reply["eval_count"], 2);
  EXPECT_EQ(reply["prompt_eval_duration"], 1'500'000);
  EXPECT_EQ(reply["eval_duration"], 2'250'000);
  EXPECT_GT(reply["total_duration"].get<int64_t>(), 0);
  EXPECT_TRUE(reply["load_duration"].is_number_integer());
  EXPECT_EQ(reply["model"], "m");
  EXPECT_TRUE(reply["created_at"].get<std::string>().ends_with("Z"));
}

TEST_F(OllamaTest, ArgumentsAreObjectsAndCallsComeWhole) {
  service_.answer_with(
      {"<think>\nLook", " it up.\n</think>\n\nOne ", "moment.\n", std::string(kCall), "\n", std::string(kCall)});
  const Json message = both(message_body(kTools))["message"];
  EXPECT_EQ(message["thinking"], "Look it up.");
  EXPECT_EQ(message["content"], "One moment.");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  const Json& function = message["tool_calls"][1]["function"];
  EXPECT_EQ(function["index"], 1);
  EXPECT_EQ(function["name"], "weather");
  EXPECT_EQ(function["arguments"], Json({{"city", "Oslo"}, {"days", 3}}));
}

TEST_F(OllamaTest, NumbersInArgumentsKeepTheirDigits) {
  service_.answer_with(
      {R"(<tool_call>{"name": "weather", "arguments": {"x": 1.50, "y": 12345678901234567890123}}</tool_call>)"});
  for (const HttpReply& reply : {ask(message_body(kTools)), ask(whole(message_body(kTools)))}) {
    EXPECT_NE(reply.body.find(R"("arguments":{"x": 1.50, "y": 12345678901234567890123})"), std::string::npos)
        << reply.body;
  }
}

TEST_F(OllamaTest, CallIdsAreUniqueAndOfTheApisForm) {
  service_.answer_with({std::string(kCall) + std::string(kCall)});
  std::set<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    for (const Json& answer :
         {parse(ask(whole(message_body(kTools))).body), joined_lines(ask(message_body(kTools)).body)}) {
      for (const Json& call : answer["message"]["tool_calls"]) ids.insert(call["id"]);
    }
  }
  EXPECT_EQ(ids.size(), 40u);
  for (const std::string& id : ids) EXPECT_EQ(id.size(), 5u + 8u) << id;
}

TEST_F(OllamaTest, ACallThatBreaksOffIsLeftOut) {
  service_.answer_with({"Wait.", std::string(kCall.substr(0, 60))}, FinishReason::kLength);
  const Json cut = both(message_body(kTools));
  EXPECT_EQ(cut["message"]["content"], "Wait.");
  EXPECT_FALSE(cut["message"].contains("tool_calls"));
  EXPECT_EQ(cut["done_reason"], "length");
}

TEST_F(OllamaTest, NothingIsSentBeforeThereIsAToken) {
  HttpClient client(port());
  client.request("POST", "/api/chat", message_body());
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  stream->push(failed_event(Error(ErrorCode::kInternal, "engine failed")));
  const HttpReply reply = client.read_reply();
  EXPECT_EQ(reply.status, 500) << "an early failure has a status";
  EXPECT_EQ(reply.body, R"({"error":"engine failed"})");
}

TEST_F(OllamaTest, AFailureBehindTheFirstTokenIsTheLastLine) {
  service_.play({text_event("Par"), failed_event(Error(ErrorCode::kInternal, "engine failed"))});
  const std::vector<Json> lines = ndjson_lines(ask(message_body()).body);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], Json({{"error", "engine failed"}}));
  EXPECT_EQ(ask(whole(message_body())).status, 500);
}

TEST_F(OllamaTest, AnEmptyRequestLoadsOrUnloadsNothing) {
  for (const char* body : {R"({"model":"m"})", R"({"model":"m","messages":[],"stream":true})",
                           R"({"model":"m","messages":null,"keep_alive":"5m"})"}) {
    const HttpReply reply = ask(body);
    EXPECT_EQ(reply.status, 200);
    Json object = parse(reply.body);
    EXPECT_TRUE(object.contains("created_at"));
    object.erase("created_at");
    EXPECT_EQ(object, Json({{"model", "m"},
                            {"message", {{"role", "assistant"}, {"content", ""}}},
                            {"done", true},
                            {"done_reason", "load"}}));
  }
  for (const char* keep_alive : {"0", "\"0\"", "\"0s\"", "0.0"}) {
    const std::string body = R"({"model":"m","keep_alive":)" + std::string(keep_alive) + "}";
    EXPECT_EQ(parse(ask(body).body)["done_reason"], "unload");
    EXPECT_EQ(parse(generate(body).body)["done_reason"], "unload");
  }
  EXPECT_EQ(parse(generate(R"({"model":"m","prompt":""})").body)["response"], "");
  EXPECT_EQ(service_.n_submitted(), 0u);
}

TEST_F(OllamaTest, GenerateGivesTheContextBack) {
  std::vector<engine::Event> events = {text_event("a"), text_event("b"), last_event(FinishReason::kStop)};
  events[0].tokens = {97};
  events[1].tokens = {98};
  service_.play(events);
  const Json first = both(prompt_body(), "/api/generate");
  EXPECT_EQ(first["response"], "ab");
  EXPECT_FALSE(first.contains("message"));
  const std::vector<int32_t> context = first["context"];
  EXPECT_EQ(tokenizer_.decode(context, true), "<s><turn>user:hi<turn>assistant:ab");
  for (int n = 0; n < 2; ++n) service_.next_stream();
  EXPECT_EQ(prompt_of("/api/generate", prompt_body("\"context\":" + first["context"].dump())),
            "<s><turn>user:hi<turn>assistant:ab<turn>user:hi<turn>assistant:");
}

TEST_F(OllamaTest, AContextStandsBeforeTheNextPromptWithoutASecondBos) {
  service_.answer_with({"x"});
  const std::string body = prompt_body(R"("context":[256,258,97])");
  EXPECT_EQ(prompt_of("/api/generate", body), "<s><turn>a<turn>user:hi<turn>assistant:");
  EXPECT_NE(refusal("/api/generate", prompt_body(R"("context":[-1])")), "");
  EXPECT_NE(refusal("/api/generate", prompt_body(R"("context":["a"])")), "");
}

TEST_F(OllamaTest, RawTextGoesThroughAsItIs) {
  service_.answer_with({"<think>", "Hm.</think>", std::string(kCall)});
  const std::string body = R"({"prompt":"<turn>x","raw":true})";
  const Json reply = both(body, "/api/generate");
  EXPECT_EQ(reply["response"], "<think>Hm.</think>" + std::string(kCall));
  EXPECT_FALSE(reply.contains("thinking"));
  EXPECT_FALSE(reply.contains("context"));
  EXPECT_EQ(reply["model"], "tiny") << "the served name stands in for one that was not given";
  EXPECT_EQ(prompt_of("/api/generate", body), "<s><turn>x");
  const auto stream = service_.next_stream();
  EXPECT_EQ(stream->request.prompt[1], ByteTokenizer::kTurn);
}

TEST_F(OllamaTest, StopStringsOfRawPromptsAreTheEngines) {
  service_.answer_with({"x"});
  const std::string body = R"({"prompt":"x","raw":true,"options":{"stop":"\n"}})";
  EXPECT_EQ(submitted("/api/generate", body)->request.stop, std::vector<std::string>{"\n"});
  EXPECT_EQ(submitted("/api/chat", message_body(R"("options":{"stop":["a"]})"))->request.stop,
            std::vector<std::string>());
}

TEST_F(OllamaTest, ThoughtsAreLeftOutWhenTheyAreSwitchedOff) {
  service_.answer_with({"<think>Hm.</think>Yes."});
  EXPECT_EQ(both(message_body())["message"]["thinking"], "Hm.");
  const Json off = both(message_body(R"("think":false)"))["message"];
  EXPECT_EQ(off["content"], "Yes.");
  EXPECT_FALSE(off.contains("thinking"));
  EXPECT_EQ(both(prompt_body(), "/api/generate")["thinking"], "Hm.");
}

TEST_F(OllamaTest, LogprobsBelongToTheContent) {
  std::vector<engine::Event> events;
  for (const char* text : {"<think>", "a", "</think>", "b", "c"}) {
    events.push_back(text_event(text));
    events.back().tokens = {1};
    events.back().logprobs = {{.chosen = {1, -0.5f}, .top = {}, .bytes = text}};
  }
  events.push_back(last_event(FinishReason::kStop));
  service_.play(events);
  const Json reply = both(message_body(R"("logprobs":true)"));
  ASSERT_EQ(reply["logprobs"].size(), 2u);
  EXPECT_EQ(reply["logprobs"][1],
            Json({{"token", "c"}, {"logprob", -0.5}, {"bytes", {99}}, {"top_logprobs", Json::array()}}));
}

TEST_F(OllamaTest, AClientThatGoesCancels) {
  HttpClient client(port());
  client.request("POST", "/api/chat", message_body());
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  client.reset();
  EXPECT_TRUE(stream->wait_cancelled());
}

// Every text of the collection, cut at random: a client gets the same whether it streams or not.
TEST_F(OllamaTest, JoinedStreamsEqualWholeAnswersInEveryToolDialect) {
  for_each_tool_case(
      11,
      [&](const Json& item, const Json& tools, bool is_cut) {
        const Json reply = both(message_body("\"tools\":" + tools.dump()));
        if (!is_cut) {
          EXPECT_EQ(reply["done_reason"], "stop");
        }
        if (item.contains("start")) return;
        EXPECT_EQ(reply["message"]["content"], item["expect"]["content"]);
      },
      "<think>");
}

}  // namespace
}  // namespace tempo9::testing
