// What /v1/messages and its count_tokens take, refuse and ignore. Spec api 2, 5.1 and 5.5.
#include <fmt/format.h>

#include "server/anthropic_support.h"

namespace tempo9::testing {
namespace {

constexpr std::string_view kTool = R"("tools":[{"name":"f","input_schema":{"type":"object"}}])";

TEST_F(AnthropicTest, TheRequestReachesTheEngine) {
  service_.answer_with({"x"});
  ask(message_body(R"("temperature":0.5,"top_p":0.25,"top_k":7,"max_tokens":33,"stop_sequences":["zz"])"));
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->request.max_tokens, 33);
  EXPECT_EQ(stream->request.sampling.temperature, 0.5f);
  EXPECT_EQ(stream->request.sampling.top_p, 0.25f);
  EXPECT_EQ(stream->request.sampling.top_k, 7);
  EXPECT_EQ(tokenizer_.decode(stream->request.prompt, true), "<s><turn>user:hi<turn>assistant:");
}

// Claude Code 2.1.197: everything that it sends, shortened.
TEST_F(AnthropicTest, WhatClaudeCodeSendsIsAnswered) {
  service_.answer_with({"Hello."});
  const HttpReply reply = post("/v1/messages?beta=true", R"({"model":"claude-sonnet-4-5","messages":[
      {"role":"user","content":[{"type":"text","text":"<system-reminder>a</system-reminder>"},
        {"type":"text","text":"say hello","cache_control":{"type":"ephemeral"}}]},
      {"role":"system","content":"be brief"}],
    "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.36; cch=91b2c"},
      {"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}},
      {"type":"text","text":"Rules."}],
    "tools":[{"name":"Bash","description":"runs","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema",
        "type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false},
        "eager_input_streaming":true}],
    "metadata":{"user_id":"u"},"max_tokens":32000,"thinking":{"type":"adaptive"},
    "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
    "output_config":{"effort":"high"},"stream":false})",
                               "anthropic-version: 2023-06-01\r\nanthropic-beta: a-2025,b-2026\r\n"
                               "x-api-key: k\r\nx-app: cli\r\n");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(parse(reply.body)["model"], "claude-sonnet-4-5");
  EXPECT_EQ(tokenizer_.decode(service_.next_stream()->request.prompt, true),
            "<s><turn>system:You are Claude Code.\n\nRules.<turn>user:<system-reminder>a</system-reminder>\nsay hello"
            "<turn>system:be brief<turn>tools:1<turn>assistant:");
}

// Field report E01.
TEST_F(AnthropicTest, TheChangingBillingLineDoesNotChangeThePrompt) {
  service_.answer_with({"x"});
  const auto prompt = [&](std::string_view system) { return prompt_of(message_body(system)); };
  const std::string expected = "<s><turn>system:Rules.<turn>user:hi<turn>assistant:";
  EXPECT_EQ(prompt(R"("system":[{"type":"text","text":"x-anthropic-billing-header: cch=1"},
                               {"type":"text","text":"Rules."}])"),
            expected);
  EXPECT_EQ(prompt(R"("system":"x-anthropic-billing-header: cch=2\nRules.")"), expected);
  EXPECT_EQ(prompt(R"("system":"x-anthropic-billing-header: cch=3")"), "<s><turn>user:hi<turn>assistant:");
}

TEST_F(AnthropicTest, CacheControlDoesNotChangeThePrompt) {
  service_.answer_with({"x"});
  const std::string mark = R"(,"cache_control":{"type":"ephemeral"})";
  const auto prompt = [&](const std::string& m) {
    return prompt_of(fmt::format(
        R"({{"max_tokens":5,"system":[{{"type":"text","text":"S"{0}}}],"messages":[
        {{"role":"user","content":[{{"type":"text","text":"a"{0}}}]}},
        {{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"f","input":{{}}{0}}}]}},
        {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":"r"{0}}}]}}],
        "tools":[{{"name":"f","input_schema":{{"type":"object"}}{0}}}]}})",
        m));
  };
  EXPECT_EQ(prompt(mark), prompt(""));
}

TEST_F(AnthropicTest, UnknownFieldsAndHintsAreIgnored) {
  service_.answer_with({"x"});
  EXPECT_EQ(ask(R"({"max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"hi","citations":null,
      "new":{"a":1}}],"id":7}],"metadata":5,"service_tier":[],"speed":1,"container":{},"context_management":"x",
      "mcp_servers":3,"inference_geo":1,"cache_control":2,"user_profile_id":{},"diagnostics":0,"brand_new":{"a":{"b":1}},
      "tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"bash_20250124","name":"bash"}]})")
                .status,
            200);
  EXPECT_EQ(tokenizer_.decode(service_.next_stream()->request.prompt, true), "<s><turn>user:hi<turn>assistant:")
      << "tools that Anthropic runs are not offered";
}

TEST_F(AnthropicTest, NullCountsAsAbsentForEveryOptionalField) {
  service_.answer_with({"x"});
  std::string fields;
  for (const char* name :
       {"system", "stream", "temperature", "top_p", "top_k", "stop_sequences", "tools", "tool_choice", "thinking",
        "output_config", "output_format", "metadata", "service_tier", "context_management"}) {
    fields += fmt::format("{}\"{}\":null", fields.empty() ? "" : ",", name);
  }
  EXPECT_EQ(ask(message_body(fields)).status, 200);
  const HttpReply reply = ask(R"({"model":null,"max_tokens":5,"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(parse(reply.body)["model"], "tiny") << reply.body;
}

TEST_F(AnthropicTest, ToolChoiceNoneLeavesTheToolsOut) {
  service_.answer_with({"x"});
  const auto prompt = [&](std::string_view choice) {
    return prompt_of(message_body(fmt::format("{}{}", kTool, choice)));
  };
  EXPECT_NE(prompt(R"(,"tool_choice":{"type":"auto"})").find("tools:1"), std::string::npos);
  EXPECT_EQ(prompt(R"(,"tool_choice":{"type":"none"})").find("tools"), std::string::npos);
}

TEST_F(AnthropicTest, ThinkingIsSwitchedInTheTemplate) {
  use_template("", "{% if enable_thinking is defined %}{{ enable_thinking }}{{ reasoning_effort }}{% endif %}");
  service_.answer_with({"x"});
  const auto tail = [&](std::string_view fields) {
    const std::string prompt = prompt_of(message_body(fields));
    return prompt.substr(prompt.rfind(':') + 1);
  };
  EXPECT_EQ(tail(""), "False");
  EXPECT_EQ(tail(R"("thinking":{"type":"disabled"},"output_config":{"effort":"max"})"), "False");
  EXPECT_EQ(tail(R"("thinking":{"type":"enabled","budget_tokens":2000})"), "True");
  EXPECT_EQ(tail(R"("thinking":{"type":"adaptive"},"output_config":{"effort":"max"})"), "Truehigh");
}

TEST_F(AnthropicTest, ABudgetEndsTheThinking) {
  service_.answer_with({"x"});
  const auto limit = [&](std::string_view fields) {
    EXPECT_EQ(ask(message_body(fields)).status, 200) << fields;
    return service_.next_stream()->request.thought_limit;
  };
  const std::string budget = R"("thinking":{"type":"enabled","budget_tokens":2000})";
  EXPECT_TRUE(limit(budget).end.empty()) << "a model that cannot think";
  use_template("{# <think> #}");
  const engine::ThoughtLimit of_the_model = limit(budget);
  EXPECT_EQ(of_the_model.max_tokens, 2000);
  EXPECT_FALSE(of_the_model.is_open);
  EXPECT_EQ(of_the_model.open, "<think>");
  EXPECT_EQ(of_the_model.close, "</think>");
  EXPECT_EQ(tokenizer_.decode(of_the_model.end, true), "\n</think>\n\n");
  EXPECT_TRUE(limit(R"("thinking":{"type":"adaptive","budget_tokens":2000})").end.empty());
  EXPECT_TRUE(limit(R"("thinking":{"type":"enabled"})").end.empty());
  EXPECT_TRUE(limit("").end.empty());
  use_template("{# <think> #}", "<think>\n");
  EXPECT_TRUE(limit(budget).is_open);
}

TEST_F(AnthropicTest, ForcedCallsAndSchemasHoldTheAnswer) {
  service_.answer_with({"x"});
  const auto constraint = [&](const std::string& fields) {
    EXPECT_EQ(ask(message_body(fields)).status, 200) << fields;
    return service_.next_stream()->request.constraint;
  };
  const std::string tool(kTool);
  EXPECT_TRUE(constraint(tool + R"(,"tool_choice":{"type":"any"})").grammar);
  EXPECT_TRUE(constraint(tool + R"(,"tool_choice":{"type":"tool","name":"f"})").grammar);
  EXPECT_FALSE(constraint(tool + R"(,"tool_choice":{"type":"auto"})").grammar);
  const std::string format = R"({"type":"json_schema","schema":{"type":"integer"}})";
  EXPECT_TRUE(constraint("\"output_config\":{\"format\":" + format + "}").grammar);
  EXPECT_TRUE(constraint("\"output_format\":" + format).grammar);
}

TEST_F(AnthropicTest, ALastMessageOfTheAssistantIsTheBeginningOfTheAnswer) {
  service_.answer_with({" Oslo."});
  const std::string body = R"({"max_tokens":9,"messages":[{"role":"user","content":"Capital?"},
      {"role":"assistant","content":"It is: "}]})";
  EXPECT_EQ(prompt_of(body), "<s><turn>user:Capital?<turn>assistant:It is:");
  EXPECT_EQ(both(body)["content"][0]["text"], " Oslo.");
}

struct BadMessage {
  const char* body;
  const char* message;  // how it begins
};
class BadMessageTest : public AnthropicTest, public ::testing::WithParamInterface<BadMessage> {};

#define MSG R"("messages":[{"role":"user","content":"hi"}])"
#define OK R"("max_tokens":9,)" MSG
const BadMessage kBadMessages[] = {
    {"", "The request body is empty"},
    {"null", "The request body must be a JSON object"},
    {"[]", "The request body must be a JSON object"},
    {"{\"messages\":", "The request body is not valid JSON"},
    {"{}", "max_tokens: field required"},
    {R"({"max_tokens":9})", "messages: field required"},
    {"{" MSG "}", "max_tokens: field required"},
    {R"({"max_tokens":null,)" MSG "}", "max_tokens: field required"},
    {R"({"max_tokens":0,)" MSG "}", "max_tokens: 0 is not at least 1"},
    {R"({"max_tokens":-1,)" MSG "}", "max_tokens: -1 is not at least 1"},
    {R"({"max_tokens":"10",)" MSG "}", "max_tokens: expected an integer, got a string"},
    {R"({"max_tokens":9,"messages":{}})", "messages: expected an array, got an object"},
    {R"({"max_tokens":9,"messages":[]})", "messages: at least one message is needed"},
    {R"({"max_tokens":9,"messages":[5]})", "messages.0: expected an object"},
    {R"({"max_tokens":9,"messages":[{"content":"x"}]})", "messages.0.role: field required"},
    {R"({"max_tokens":9,"messages":[{"role":"king","content":"x"}]})", "messages.0.role: 'king' is not user"},
    {R"({"max_tokens":9,"messages":[{"role":"user"}]})", "messages.0.content: field required"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":7}]})",
     "messages.0.content: expected a string or an array"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":[7]}]})", "messages.0.content.0: expected an object"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":[{"text":"x"}]}]})",
     "messages.0.content.0.type: field req"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":[{"type":"text"}]}]})",
     "messages.0.content.0.text: field"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_use","name":"f"}]}]})",
     "messages.0.content.0.type: 'tool_use' blocks belong to messages of the assistant"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[
        {"type":"tool_use","id":"t","input":{}}]},{"role":"user","content":"b"}]})",
     "messages.1.content.0.name: field required"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[
        {"type":"tool_use","id":"t","name":"f","input":[1]}]},{"role":"user","content":"b"}]})",
     "messages.1.content.0.input: expected an object, got an array"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64"}}]}]})",
     "messages.0.content.0.source: image input needs a vision tower; start the server with --tower"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64"}}]}]})",
     "messages.0.content.0.source: PDF input is not supported"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"{"}],
        "thinking":{"type":"adaptive"}})",
     "messages.1: continuing a message of the assistant while thinking is on is not supported"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"{"}],
        "tools":[{"name":"f"}],"tool_choice":{"type":"any"}})",
     "messages.1: continuing a message of the assistant in a form that is held to is not supported"},
    {R"({"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[
        {"type":"tool_use","id":"t","name":"f","input":{}}]}]})",
     "messages.1: its calls have no results yet"},
    {"{" OK R"(,"system":5})", "system: expected a string or an array of content blocks"},
    {"{" OK R"(,"temperature":"hot"})", "temperature: expected a number, got a string"},
    {"{" OK R"(,"temperature":2.5})", "temperature: 2.5 is not between 0 and 2"},
    {"{" OK R"(,"top_p":1.5})", "top_p: 1.5 is not between 0 and 1"},
    {"{" OK R"(,"top_k":1.5})", "top_k: expected an integer"},
    {"{" OK R"(,"stream":"no"})", "stream: expected a boolean"},
    {"{" OK R"(,"stop_sequences":["a",""]})", "stop_sequences.1: it is empty"},
    {"{" OK R"(,"stop_sequences":5})", "stop_sequences: expected a string or an array of strings"},
    {"{" OK R"(,"model":5})", "model: expected a string"},
    {"{" OK R"(,"tools":{}})", "tools: expected an array"},
    {"{" OK R"(,"tools":[{"input_schema":{}}]})", "tools.0.name: field required"},
    {"{" OK R"(,"tools":[{"name":"f","input_schema":[]}]})", "tools.0.input_schema: expected an object"},
    {"{" OK R"(,"tool_choice":"auto"})", "tool_choice: expected an object"},
    {"{" OK R"(,"tool_choice":{}})", "tool_choice.type: field required"},
    {"{" OK R"(,"tool_choice":{"type":"maybe"}})", "tool_choice.type: 'maybe' is not auto, any, tool or none"},
    {"{" OK R"(,"tool_choice":{"type":"any"}})", "tool_choice.type: there are no tools to call"},
    {"{" OK R"(,"tool_choice":{"type":"tool","name":"g"}})", "tool_choice.name: there is no tool named 'g'"},
    {"{" OK R"(,"tools":[{"name":"f","strict":1}]})", "tools.0.strict: expected a boolean"},
    {"{" OK R"(,"tools":[{"name":"f","input_schema":{"type":"list"}}],"tool_choice":{"type":"tool","name":"f"}})",
     "tools: tool f: schema #/type: \"list\" is no type"},
    {"{" OK R"(,"thinking":{}})", "thinking.type: field required"},
    {"{" OK R"(,"thinking":{"type":"sometimes"}})", "thinking.type: 'sometimes' is not disabled"},
    {"{" OK R"(,"thinking":{"type":"enabled","budget_tokens":0}})", "thinking.budget_tokens: 0 is not at least 1"},
    {"{" OK R"(,"output_config":{"effort":"none"}})", "output_config.effort: 'none' is not low"},
    {"{" OK R"(,"output_config":{"format":{"type":"xml"}}})", "output_config.format.type: 'xml' is not json_schema"},
    {"{" OK R"(,"output_format":{"type":"json_schema"}})", "output_format.schema: field required"},
    {"{" OK R"(,"output_config":{"format":{"type":"json_schema","schema":{"$ref":"#/nowhere"}}}})",
     "output_config.format: "},
};
#undef OK
#undef MSG

TEST_P(BadMessageTest, Answers400WithThePathAndTheNextRequestIsServed) {
  service_.answer_with({"fine"});
  for (const bool streaming : {false, true}) {
    std::string body = GetParam().body;
    if (streaming && body.starts_with('{')) body.insert(1, body == "{}" ? R"("stream":true)" : R"("stream":true,)");
    const HttpReply reply = ask(body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_EQ(reply.header("Content-Length"), std::to_string(reply.body.size()));
    const Json error = parse(reply.body);
    EXPECT_EQ(error["type"], "error");
    EXPECT_EQ(error["request_id"], reply.header("request-id"));
    EXPECT_EQ(error["error"]["type"], "invalid_request_error");
    EXPECT_TRUE(error["error"]["message"].get<std::string>().starts_with(GetParam().message)) << reply.body;
  }
  EXPECT_EQ(service_.n_submitted(), 0u);
  EXPECT_EQ(whole(message_body())["content"][0]["text"], "fine");
}

INSTANTIATE_TEST_SUITE_P(Bodies, BadMessageTest, ::testing::ValuesIn(kBadMessages));

TEST_F(AnthropicTest, OtherErrorsHaveTheirTypesAndStatuses) {
  const auto type = [&](const HttpReply& reply) { return parse(reply.body)["error"]["type"].get<std::string>(); };
  const HttpReply unknown = post("/v1/messages/batches", "{}");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(type(unknown), "not_found_error");
  const HttpReply method = get("/v1/messages");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(type(method), "invalid_request_error");
  service_.refuse_with(Error(ErrorCode::kOutOfCapacity, "512 requests are waiting"));
  for (const HttpReply& busy : {ask(message_body()), ask_streamed(message_body())}) {
    EXPECT_EQ(busy.status, 529);
    EXPECT_EQ(busy.header("Retry-After"), "1");
    EXPECT_EQ(type(busy), "overloaded_error");
  }
}

TEST_F(AnthropicTest, ATemplateThatRaisesIsTheClientsToKnow) {
  use_template("{{ raise_exception('roles must alternate') }}");
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    const HttpReply reply = post(path, message_body());
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(reply.body.find("roles must alternate"), std::string::npos) << reply.body;
  }
}

// Field report D18: Claude Code compacts when it reads this.
TEST_F(AnthropicTest, APromptThatDoesNotFitIsRefusedInTheWordsThatClientsRead) {
  service_.answer_with({"x"});
  ask(message_body({}, R"("")"));
  const size_t overhead = service_.next_stream()->request.prompt.size();
  service_.set_context_length(100);
  const auto with_prompt_of = [&](size_t n) {
    return message_body(R"("max_tokens":1000000)", "\"" + std::string(n - overhead, 'a') + "\"");
  };
  EXPECT_EQ(ask(with_prompt_of(99)).status, 200);
  for (const size_t n : {size_t{101}, size_t{3000}}) {
    for (const HttpReply& reply : {ask(with_prompt_of(n)), ask_streamed(with_prompt_of(n))}) {
      EXPECT_EQ(reply.status, 400);
      const Json error = parse(reply.body)["error"];
      EXPECT_EQ(error["type"], "invalid_request_error");
      EXPECT_EQ(error["message"], fmt::format("prompt is too long: {} tokens > 100 maximum", n));
    }
    EXPECT_EQ(parse(post("/v1/messages/count_tokens", with_prompt_of(n)).body)["input_tokens"], n)
        << "counted, not refused";
  }
}

TEST_F(AnthropicTest, TokensAreCountedExactlyAndWithoutTheEngine) {
  service_.answer_with({"x"});
  for (const std::string& fields :
       {std::string(), std::string(R"("system":[{"type":"text","text":"Rules."}])"), std::string(kTool),
        fmt::format(R"({},"tool_choice":{{"type":"none"}})", kTool), std::string(R"("thinking":{"type":"enabled"})")}) {
    const std::string body = message_body(fields, R"([{"type":"text","text":"Gr\u00fc\u00dfe <turn> \ud83d\ude00"}])");
    const HttpReply reply = post("/v1/messages/count_tokens?beta=true", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_TRUE(reply.header("request-id").starts_with("req_"));
    const size_t n_before = service_.n_submitted();
    ask(body);
    EXPECT_EQ(service_.n_submitted(), n_before + 1);
    EXPECT_EQ(reply.body, fmt::format(R"({{"input_tokens":{}}})", service_.next_stream()->request.prompt.size()));
  }
}

TEST_F(AnthropicTest, CountingNeedsNoMaxTokensAndRefusesWhatMessagesRefuse) {
  const auto count = [&](std::string_view body) { return post("/v1/messages/count_tokens", body); };
  EXPECT_EQ(count(R"({"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[]})").status, 200);
  EXPECT_EQ(count("{}").status, 400);
  EXPECT_EQ(count("").status, 400);
  const HttpReply image =
      count(R"({"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":""}}]}]})");
  EXPECT_EQ(image.status, 400);
  EXPECT_NE(image.body.find("vision tower"), std::string::npos);
  EXPECT_EQ(service_.n_submitted(), 0u);
}

}  // namespace
}  // namespace tempo9::testing
