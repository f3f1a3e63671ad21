// What /v1/responses takes, refuses and ignores. Spec api 2, 4.1 and 4.9.
#include <fmt/format.h>

#include "server/responses_support.h"

namespace tempo9::testing {
namespace {

constexpr std::string_view kTool = R"("tools":[{"type":"function","name":"f"},{"type":"custom","name":"p"}])";

TEST_F(ResponsesTest, TheRequestReachesTheEngine) {
  service_.answer_with({"x"});
  const HttpReply reply = ask(input_body(R"("temperature":0.5,"top_p":0.25,"max_output_tokens":33)"));
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->request.max_tokens, 33);
  EXPECT_EQ(stream->request.sampling.temperature, 0.5f);
  EXPECT_EQ(stream->request.sampling.top_p, 0.25f);
  EXPECT_FALSE(stream->request.logprobs);
  EXPECT_EQ(tokenizer_.decode(stream->request.prompt, true), "<s><turn>user:hi<turn>assistant:");
  EXPECT_EQ(parse(reply.body)["max_output_tokens"], 33);
}

// Codex 0.171.0: everything that it sends, shortened.
TEST_F(ResponsesTest, WhatCodexSendsIsAnswered) {
  service_.answer_with({"Hello."});
  const HttpReply reply = post("/v1/responses", R"({"model":"local","input":[
      {"type":"message","role":"developer","content":[{"type":"input_text","text":"You are Codex."}]},
      {"type":"message","role":"developer","content":[{"type":"input_text","text":"Permissions."}]},
      {"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]},
      {"type":"message","role":"user","content":[{"type":"input_text","text":"say hello"}]},
      {"type":"reasoning","summary":null,"content":null,"encrypted_content":"gAAAAA"}],
    "tools":[{"type":"function","name":"exec_command","description":"runs","strict":false,"parameters":{"type":"object",
        "properties":{"cmd":{"type":"string"}}}},
      {"type":"namespace","name":"multi_agent_v1","description":"agents","tools":[{"type":"function","name":"spawn"}]},
      {"type":"web_search","external_web_access":false},{"type":"image_generation"},
      {"type":"custom","name":"apply_patch","description":"p","format":{"type":"grammar","syntax":"lark",
        "definition":"start: x"}}],
    "tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"medium","summary":"auto"},"store":false,
    "include":["reasoning.encrypted_content"],"prompt_cache_key":"k","client_metadata":{"x":"y"},
    "text":{"verbosity":"medium"},"stream":false})",
                               "session-id: s\r\nthread-id: t\r\nx-codex-turn-metadata: {}\r\n");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(tokenizer_.decode(service_.next_stream()->request.prompt, true),
            "<s><turn>system:You are Codex.\n\nPermissions.<turn>user:<environment_context><turn>user:say hello"
            "<turn>tools:3<turn>assistant:");
}

TEST_F(ResponsesTest, InstructionsComeFirst) {
  service_.answer_with({"x"});
  EXPECT_EQ(prompt_of(input_body(R"("instructions":"Be brief.")", R"([{"role":"developer","content":"d"},
      {"role":"user","content":"u"}])")),
            "<s><turn>system:Be brief.\n\nd<turn>user:u<turn>assistant:");
}

TEST_F(ResponsesTest, UnknownFieldsAndHintsAreIgnored) {
  service_.answer_with({"x"});
  const HttpReply reply = ask(input_body(R"("user":5,"service_tier":7,"safety_identifier":"s","prompt_cache_key":"k",
      "prompt_cache_retention":1,"prompt_cache_options":[],"max_tool_calls":2,"stream_options":true,"client_metadata":3,
      "context_management":"x","moderation":{},"brand_new":{"a":{"b":1}},"background":false,"top_logprobs":3,
      "include":["message.input_image.image_url"],"text":{"verbosity":9},"reasoning":{"context":4,"mode":[]},
      "metadata":{"k":"v"},"tools":[{"type":"web_search"},{"type":"tool_search"},{"type":"x"}])"));
  EXPECT_EQ(reply.status, 200) << reply.body;
  const Json body = parse(reply.body);
  EXPECT_EQ(body["metadata"], Json::parse(R"({"k":"v"})"));
  EXPECT_EQ(body["safety_identifier"], "s");
  EXPECT_EQ(body["prompt_cache_key"], "k");
  EXPECT_EQ(body["tools"].size(), 3u);
  EXPECT_EQ(tokenizer_.decode(service_.next_stream()->request.prompt, true), "<s><turn>user:hi<turn>assistant:")
      << "tools that OpenAI runs are not offered";
}

TEST_F(ResponsesTest, NullCountsAsAbsentForEveryOptionalField) {
  service_.answer_with({"x"});
  std::string fields;
  for (const char* name : {"instructions",
                           "stream",
                           "max_output_tokens",
                           "temperature",
                           "top_p",
                           "tools",
                           "tool_choice",
                           "parallel_tool_calls",
                           "reasoning",
                           "text",
                           "include",
                           "top_logprobs",
                           "store",
                           "previous_response_id",
                           "truncation",
                           "background",
                           "conversation",
                           "prompt",
                           "metadata",
                           "user",
                           "max_tool_calls",
                           "prompt_cache_key"}) {
    fields += fmt::format("{}\"{}\":null", fields.empty() ? "" : ",", name);
  }
  EXPECT_EQ(ask(input_body(fields)).status, 200);
  EXPECT_EQ(ask(input_body(R"("reasoning":{"effort":null,"summary":null},"text":{"format":null})")).status, 200);
  EXPECT_EQ(parse(ask(R"({"model":null,"input":"hi"})").body)["model"], "tiny");
}

TEST_F(ResponsesTest, ToolChoiceRestrictsWhatIsOffered) {
  service_.answer_with({"x"});
  const auto prompt = [&](std::string_view choice) {
    return prompt_of(input_body(fmt::format("{},\"tool_choice\":{}", kTool, choice)));
  };
  EXPECT_NE(prompt(R"("auto")").find("tools:2"), std::string::npos);
  EXPECT_EQ(prompt(R"("none")").find("tools"), std::string::npos);
  EXPECT_NE(prompt(R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"p"},
      {"type":"web_search"}]})")
                .find("tools:2"),
            std::string::npos)
      << "all stay in the prompt, for the prefix cache";
  EXPECT_EQ(prompt(R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]})").find("tools"),
            std::string::npos);
}

TEST_F(ResponsesTest, ForcedCallsAreHeldToAGrammar) {
  service_.answer_with({"x"});
  const auto constraint = [&](std::string_view choice) {
    EXPECT_EQ(ask(input_body(fmt::format("{},\"tool_choice\":{}", kTool, choice))).status, 200) << choice;
    return service_.next_stream()->request.constraint.grammar != nullptr;
  };
  EXPECT_FALSE(constraint(R"("auto")"));
  for (const char* choice :
       {R"("required")", R"({"type":"function","name":"f"})", R"({"type":"custom","name":"p"})",
        R"({"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]})"}) {
    EXPECT_TRUE(constraint(choice));
  }
}

TEST_F(ResponsesTest, FormatsAreHeldToAGrammar) {
  service_.answer_with({"{}"});
  const auto constraint = [&](std::string_view format) {
    const HttpReply reply = ask(input_body(fmt::format("\"text\":{{\"format\":{}}}", format)));
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(parse(reply.body)["text"]["format"].dump(), format);
    return service_.next_stream()->request.constraint.grammar != nullptr;
  };
  EXPECT_FALSE(constraint(R"({"type":"text"})"));
  EXPECT_TRUE(constraint(R"({"type":"json_object"})"));
  EXPECT_TRUE(constraint(R"({"type":"json_schema","strict":true,"name":"n","schema":{"type":"object"}})"));
}

// What Codex sends with --output-schema.
TEST_F(ResponsesTest, AFormatMayStandBesideTools) {
  service_.answer_with({"{}"});
  EXPECT_EQ(ask(input_body(fmt::format(R"({},"text":{{"format":{{"type":"json_schema","strict":true,
      "name":"codex_output_schema","schema":{{"type":"object"}}}}}})",
                                       kTool)))
                .status,
            200);
  EXPECT_NE(service_.next_stream()->request.constraint.grammar, nullptr);
  const HttpReply refused = ask(input_body(R"("text":{"format":{"type":"json_schema","strict":true,"name":"n",
      "schema":{"type":"number","multipleOf":3}}})"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(parse(refused.body)["error"]["param"], "text.format");
  EXPECT_EQ(parse(refused.body)["error"]["code"], "invalid_schema");
}

TEST_F(ResponsesTest, TheEffortOfReasoningReachesTheTemplate) {
  use_template("", "{% if enable_thinking is defined %}{{ enable_thinking }}{{ reasoning_effort }}{% endif %}");
  service_.answer_with({"x"});
  const auto tail = [&](std::string_view fields) {
    const std::string prompt = prompt_of(input_body(fields));
    return prompt.substr(prompt.rfind(':') + 1);
  };
  EXPECT_EQ(tail(""), "");
  EXPECT_EQ(tail(R"("reasoning":{"summary":"auto"})"), "");
  EXPECT_EQ(tail(R"("reasoning":{"effort":"none"})"), "Falselow");
  EXPECT_EQ(tail(R"("reasoning":{"effort":"xhigh"})"), "Truehigh");
}

// Field report D18: the code that Codex looks for, with both numbers.
TEST_F(ResponsesTest, APromptThatIsTooLongHasBothNumbers) {
  service_.set_context_length(40);
  const std::string body = input_body({}, fmt::format("\"{}\"", std::string(100, 'x')));
  for (const HttpReply& reply : {ask(body), ask_streamed(body)}) {
    EXPECT_EQ(reply.status, 400);
    const Json error = parse(reply.body)["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["param"], "input");
    EXPECT_EQ(error["message"],
              "This model's maximum context length is 40 tokens. However, your messages resulted in 118 tokens.");
  }
}

TEST_F(ResponsesTest, AFullQueueMayBeTriedAgain) {
  service_.refuse_with(Error(ErrorCode::kOutOfCapacity, "full"));
  const HttpReply reply = ask_streamed(input_body());
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.header("Retry-After"), "1");
  EXPECT_EQ(parse(reply.body)["error"]["code"], "rate_limit_exceeded");
}

TEST_F(ResponsesTest, TheRouteWithoutVersionIsTheSame) {
  service_.answer_with({"x"});
  EXPECT_EQ(post("/responses", input_body()).status, 200);
  EXPECT_EQ(post("/v1/responses/?x=y", input_body()).status, 200);
}

struct BadInput {
  const char* body;
  const char* param;  // null: none
  const char* code;   // null: none
  const char* message = "";
};
class BadInputTest : public ResponsesTest, public ::testing::WithParamInterface<BadInput> {};

#define OK R"("input":"hi")"
const BadInput kBadInputs[] = {
    {"", nullptr, nullptr, "The request body is empty"},
    {"null", nullptr, "invalid_json"},
    {"[]", nullptr, "invalid_json"},
    {"{\"input\":", nullptr, "invalid_json"},
    {"{}", "input", "missing_required_parameter"},
    {R"({"input":null})", "input", "missing_required_parameter"},
    {R"({"input":5})", "input", "invalid_type"},
    {R"({"input":{}})", "input", "invalid_type"},
    {R"({"input":[]})", "input", "invalid_value"},
    {R"({"input":[5]})", "input[0]", "invalid_type"},
    {R"({"input":[{"content":"x"}]})", "input[0].type", "missing_required_parameter"},
    {R"({"input":[{"role":"king","content":"x"}]})", "input[0].role", "invalid_value"},
    {R"({"input":[{"role":5,"content":"x"}]})", "input[0].role", "invalid_type"},
    {R"({"input":[{"type":"message","content":"x"}]})", "input[0].role", "missing_required_parameter"},
    {R"({"input":[{"role":"user"}]})", "input[0].content", "missing_required_parameter"},
    {R"({"input":[{"role":"user","content":7}]})", "input[0].content", "invalid_type"},
    {R"({"input":[{"role":"user","content":[7]}]})", "input[0].content[0]", "invalid_type"},
    {R"({"input":[{"role":"user","content":[{"text":"x"}]}]})", "input[0].content[0].type",
     "missing_required_parameter"},
    {R"({"input":[{"role":"user","content":[{"type":"input_text"}]}]})", "input[0].content[0].text",
     "missing_required_parameter"},
    {R"({"input":[{"role":"user","content":[{"type":"hologram"}]}]})", "input[0].content[0].type", "invalid_value"},
    {R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AA"}]}]})",
     "input[0].content[0].type", "unsupported_content",
     "image input needs a vision tower; start the server with --tower"},
    {R"({"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]})", "input[0].content[0].type",
     "unsupported_content"},
    {R"({"input":[{"type":"function_call","call_id":"c","arguments":"{}"}]})", "input[0].name",
     "missing_required_parameter"},
    {R"({"input":[{"type":"function_call","call_id":"c","name":"f","arguments":[1]}]})", "input[0].arguments",
     "invalid_type"},
    {R"({"input":[{"type":"reasoning","summary":"x"}]})", "input[0].summary", "invalid_type"},
    {"{" OK R"(,"instructions":5})", "instructions", "invalid_type"},
    {"{" OK R"(,"model":5})", "model", "invalid_type"},
    {"{" OK R"(,"stream":"no"})", "stream", "invalid_type"},
    {"{" OK R"(,"store":"no"})", "store", "invalid_type"},
    {"{" OK R"(,"temperature":2.5})", "temperature", "invalid_value"},
    {"{" OK R"(,"temperature":"hot"})", "temperature", "invalid_type"},
    {"{" OK R"(,"top_p":-1})", "top_p", "invalid_value"},
    {"{" OK R"(,"max_output_tokens":0})", "max_output_tokens", "invalid_value"},
    {"{" OK R"(,"max_output_tokens":-1})", "max_output_tokens", "invalid_value"},
    {"{" OK R"(,"max_output_tokens":"10"})", "max_output_tokens", "invalid_type"},
    {"{" OK R"(,"top_logprobs":21})", "top_logprobs", "invalid_value"},
    {"{" OK R"(,"include":"x"})", "include", "invalid_type"},
    {"{" OK R"(,"include":[5]})", "include[0]", "invalid_type"},
    {"{" OK R"(,"truncation":"some"})", "truncation", "invalid_value"},
    {"{" OK R"(,"background":true})", "background", "unsupported_parameter"},
    {"{" OK R"(,"conversation":"conv_1"})", "conversation", "unsupported_parameter"},
    {"{" OK R"(,"prompt":{"id":"p"}})", "prompt", "unsupported_parameter"},
    {"{" OK R"(,"previous_response_id":"resp_x"})", "previous_response_id", "previous_response_not_found",
     "Previous response with id 'resp_x' not found."},
    {"{" OK R"(,"previous_response_id":5})", "previous_response_id", "invalid_type"},
    {"{" OK R"(,"reasoning":5})", "reasoning", "invalid_type"},
    {"{" OK R"(,"reasoning":{"effort":"huge"}})", "reasoning.effort", "invalid_value"},
    {"{" OK R"(,"reasoning":{"summary":"long"}})", "reasoning.summary", "invalid_value"},
    {"{" OK R"(,"text":5})", "text", "invalid_type"},
    {"{" OK R"(,"text":{"format":{"type":"xml"}}})", "text.format.type", "invalid_value"},
    {"{" OK R"(,"text":{"format":{"type":"json_schema","name":"n"}}})", "text.format.schema",
     "missing_required_parameter"},
    {"{" OK R"(,"tools":{}})", "tools", "invalid_type"},
    {"{" OK R"(,"tools":[5]})", "tools[0]", "invalid_type"},
    {"{" OK R"(,"tools":[{"name":"f"}]})", "tools[0].type", "missing_required_parameter"},
    {"{" OK R"(,"tools":[{"type":"function"}]})", "tools[0].name", "missing_required_parameter"},
    {"{" OK R"(,"tools":[{"type":"function","name":"f","parameters":[]}]})", "tools[0].parameters", "invalid_type"},
    {"{" OK R"(,"tools":[{"type":"namespace","name":"n","tools":[{"type":"function"}]}]})", "tools[0].tools[0].name",
     "missing_required_parameter"},
    {"{" OK R"(,"tool_choice":"maybe"})", "tool_choice", "invalid_value"},
    {"{" OK R"(,"tool_choice":5})", "tool_choice", "invalid_type"},
    {"{" OK R"(,"tool_choice":{}})", "tool_choice.type", "missing_required_parameter"},
    {"{" OK R"(,"tool_choice":"required"})", "tool_choice", "invalid_value"},
    {"{" OK R"(,"tool_choice":{"type":"function","name":"g"}})", "tool_choice.name", "invalid_value"},
    {"{" OK R"(,"tool_choice":{"type":"web_search"}})", "tool_choice", "unsupported_parameter"},
    {"{" OK R"(,"tool_choice":{"type":"allowed_tools","mode":"auto"}})", "tool_choice.tools",
     "missing_required_parameter"},
};
#undef OK

TEST_P(BadInputTest, IsRefusedInTheShapeOfTheApi) {
  {
    const HttpReply reply = ask(GetParam().body);
    EXPECT_EQ(reply.status, 400) << GetParam().body;
    EXPECT_TRUE(reply.header("x-request-id").starts_with("req_"));
    const Json error = parse(reply.body)["error"];
    EXPECT_EQ(error["type"], "invalid_request_error") << GetParam().body;
    EXPECT_EQ(error["param"], GetParam().param ? Json(GetParam().param) : Json()) << reply.body;
    EXPECT_EQ(error["code"], GetParam().code ? Json(GetParam().code) : Json()) << reply.body;
    EXPECT_NE(error["message"].get<std::string>().find(GetParam().message), std::string::npos) << reply.body;
  }
  service_.answer_with({"Still here."});
  EXPECT_EQ(whole(input_body())["output"][0]["content"][0]["text"], "Still here.");
}

INSTANTIATE_TEST_SUITE_P(Bodies, BadInputTest, ::testing::ValuesIn(kBadInputs));

}  // namespace
}  // namespace tempo9::testing
