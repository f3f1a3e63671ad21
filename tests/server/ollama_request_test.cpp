// What /api/chat and /api/generate take.
#include "server/dialects/ollama_request.h"

#include "server/ollama_support.h"

namespace tempo9::testing {
namespace {

constexpr std::string_view kChat = "/api/chat";
constexpr std::string_view kGenerate = "/api/generate";

TEST(GoDuration, IsReadAsGoDoes) {
  const auto seconds = [](std::string_view text) { return server::parse_go_duration(text).value_or(-777); };
  EXPECT_EQ(seconds("5m"), 300);
  EXPECT_EQ(seconds("1h30m"), 5400);
  EXPECT_DOUBLE_EQ(seconds("300ms"), 0.3);
  EXPECT_DOUBLE_EQ(seconds("1.5s"), 1.5);
  EXPECT_EQ(seconds("-1"), -1);
  EXPECT_EQ(seconds("0"), 0);
  EXPECT_EQ(seconds("24h"), 86400);
  EXPECT_DOUBLE_EQ(seconds("2\u00b5s"), 2e-6);
  for (const char* wrong : {"", "-", "5x", "m", "five minutes", "1h30", "nan", "inf", "1e3s", "5 m"}) {
    EXPECT_FALSE(server::parse_go_duration(wrong)) << wrong;
  }
}

class OllamaRequestTest : public OllamaTest {
 protected:
  void SetUp() override {
    OllamaTest::SetUp();
    service_.answer_with({"x"});
  }
  engine::SamplingParams sampling_of(const std::string& options) {
    return submitted(kChat, message_body("\"options\":" + options))->request.sampling;
  }
};

TEST_F(OllamaRequestTest, SamplingDefaultsAreOllamas) {
  const engine::SamplingParams params = sampling_of("{}");
  EXPECT_FLOAT_EQ(params.temperature, 0.8f);
  EXPECT_FLOAT_EQ(params.top_p, 0.9f);
  EXPECT_EQ(params.top_k, 40);
  EXPECT_EQ(params.repetition_penalty, 1.0f);
  EXPECT_EQ(params.repeat_last_n, 64);
  EXPECT_FALSE(params.seed);
}

TEST_F(OllamaRequestTest, TheModelFilesAdviceGoesBeforeTheDialectsDefaults) {
  sampling_defaults_ = {.temperature = 0.6, .top_k = 20};
  restart({});
  EXPECT_FLOAT_EQ(sampling_of("{}").temperature, 0.6f);
  EXPECT_EQ(sampling_of("{}").top_k, 20);
  EXPECT_FLOAT_EQ(sampling_of("{}").top_p, 0.9f);
  EXPECT_FLOAT_EQ(sampling_of(R"({"temperature":0})").temperature, 0.0f);
}

TEST_F(OllamaRequestTest, OptionsAreRead) {
  const engine::SamplingParams params = sampling_of(
      R"({"temperature":0.5,"top_p":0.7,"top_k":7.0,"min_p":0.05,"repeat_penalty":1.1,"repeat_last_n":-1,)"
      R"("presence_penalty":0.5,"frequency_penalty":-0.5,"seed":42,"typical_p":1.0,"num_ctx":4096,"num_gpu":99,)"
      R"("mirostat":"whatever","num_keep":5,"use_mmap":true,"unheard_of":[]})");
  EXPECT_FLOAT_EQ(params.temperature, 0.5f);
  EXPECT_FLOAT_EQ(params.top_p, 0.7f);
  EXPECT_EQ(params.top_k, 7);
  EXPECT_FLOAT_EQ(params.min_p, 0.05f);
  EXPECT_FLOAT_EQ(params.repetition_penalty, 1.1f);
  EXPECT_EQ(params.repeat_last_n, -1);
  EXPECT_FLOAT_EQ(params.presence_penalty, 0.5f);
  EXPECT_FLOAT_EQ(params.frequency_penalty, -0.5f);
  EXPECT_EQ(params.seed, 42u);
  EXPECT_FALSE(sampling_of(R"({"seed":-1})").seed);
}

TEST_F(OllamaRequestTest, NumPredictThatIsNotPositiveMeansTheWholeContext) {
  const auto max_tokens = [&](const std::string& value) {
    return submitted(kChat, message_body(R"("options":{"num_predict":)" + value + "}"))->request.max_tokens;
  };
  EXPECT_EQ(max_tokens("5"), 5);
  for (const char* value : {"0", "-1", "-2", "null"}) EXPECT_EQ(max_tokens(value), 0) << value;
}

TEST_F(OllamaRequestTest, OptionsOfAWrongTypeAreNamedAsOllamaDoes) {
  const auto of = [&](const std::string& options) { return refusal(kChat, message_body("\"options\":" + options)); };
  EXPECT_EQ(of(R"({"temperature":"warm"})"), R"(option "temperature" must be of type float32)");
  EXPECT_EQ(of(R"({"top_k":"many"})"), R"(option "top_k" must be of type integer)");
  EXPECT_EQ(of(R"({"stop":5})"), R"(option "stop" must be of type array)");
  EXPECT_NE(of(R"({"top_k":1.5})"), "");
  EXPECT_NE(of(R"({"temperature":5})").find("options.temperature"), std::string::npos);
  EXPECT_NE(of(R"({"typical_p":0.5})").find("typical_p"), std::string::npos);
  EXPECT_NE(of("[]").find("options"), std::string::npos);
}

TEST_F(OllamaRequestTest, BodiesThatAreNoRequestAreRefusedInOllamasShape) {
  for (const std::string_view path : {kChat, kGenerate, std::string_view("/api/show")}) {
    EXPECT_EQ(refusal(path, ""), "missing request body");
    for (const char* body : {"{", "[]", "5", "null", R"({"model":5})"}) EXPECT_NE(refusal(path, body), "") << body;
  }
  for (const char* fields :
       {R"("stream":"yes")", R"("think":"hard")", R"("think":1)", R"("format":"xml")", R"("format":5)",
        R"("keep_alive":"soon")", R"("keep_alive":[])", R"("logprobs":1)", R"("options":"none")"}) {
    EXPECT_NE(refusal(kChat, message_body(fields)), "") << fields;
    EXPECT_NE(refusal(kGenerate, prompt_body(fields)), "") << fields;
  }
  EXPECT_EQ(refusal(kChat, message_body(R"("top_logprobs":21)")), "top_logprobs must be between 0 and 20");
  for (const char* messages :
       {R"("hi")", R"([5])", R"([{"content":"x"}])", R"([{"role":"nobody","content":"x"}])",
        R"([{"role":"user","content":5}])", R"([{"role":"user","content":[{"type":"text"}]}])",
        R"([{"role":"assistant","tool_calls":"x"}])", R"([{"role":"assistant","tool_calls":[{"function":5}]}])",
        R"([{"role":"user","content":"x","images":"x"}])"}) {
    EXPECT_NE(refusal(kChat, R"({"messages":)" + std::string(messages) + "}"), "") << messages;
  }
}

TEST_F(OllamaRequestTest, UnknownFieldsAndNullsAreAccepted) {
  const HttpReply reply =
      ask(R"({"model":null,"messages":[{"role":"User","content":"x","thinking":null,"images":null,"tool_calls":null,)"
          R"("tool_name":null,"unheard":{}}],"stream":null,"tools":null,"think":null,"format":null,"options":null,)"
          R"("keep_alive":null,"truncate":null,"shift":null,"logprobs":null,"top_logprobs":null,"unheard":[1]})");
  EXPECT_EQ(reply.status, 200) << reply.body;
}

TEST_F(OllamaRequestTest, FieldsOfTheOtherRouteAreNamedWhereTheAnswerWouldBeEmpty) {
  EXPECT_NE(refusal(kGenerate, message_body()).find("/api/chat"), std::string::npos);
  EXPECT_NE(refusal(kChat, prompt_body()).find("/api/generate"), std::string::npos);
  EXPECT_EQ(post(kChat, R"({"model":"m","prompt":"","messages":[]})").status, 200);
}

TEST_F(OllamaRequestTest, MessagesReachThePrompt) {
  const std::string messages = R"({"messages":[{"role":"SYSTEM","content":"S"},{"role":"user","content":)"
                               R"([{"type":"text","text":"U"}]},{"role":"assistant","content":"A"},)"
                               R"({"role":"user"}]})";
  EXPECT_EQ(prompt_of(kChat, messages), "<s><turn>system:S<turn>user:U<turn>assistant:A<turn>user:<turn>assistant:");
  EXPECT_EQ(prompt_of(kGenerate, prompt_body(R"("system":"S")")), "<s><turn>system:S<turn>user:hi<turn>assistant:");
}

TEST_F(OllamaRequestTest, ImagesAreRefusedByNameAndNotedInResults) {
  constexpr std::string_view kNoTower = "image input needs a vision tower; start the server with --tower";
  EXPECT_EQ(refusal(kChat, R"({"messages":[{"role":"user","content":"x","images":["aaaa"]}]})"), kNoTower);
  EXPECT_EQ(refusal(kGenerate, prompt_body(R"("images":["aaaa"])")), kNoTower);
  EXPECT_EQ(refusal(kGenerate, R"({"images":["aaaa"]})"), kNoTower);
  const std::string result =
      R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"shot"}}]},)"
      R"({"role":"tool","content":"done","images":["aaaa"]}]})";
  EXPECT_NE(prompt_of(kChat, result).find("done[image left out"), std::string::npos);
}

TEST_F(OllamaRequestTest, ThinkingIsOnWhereTheModelCanThink) {
  use_template("{# <tool_call> #}{{ enable_thinking }} {{ reasoning_effort }}");
  EXPECT_TRUE(prompt_of(kChat, message_body()).starts_with("<s>True"));
  EXPECT_TRUE(prompt_of(kChat, message_body(R"("think":false)")).starts_with("<s>False low"));
  EXPECT_TRUE(prompt_of(kChat, message_body(R"("think":"max")")).starts_with("<s>True high"));
  EXPECT_TRUE(prompt_of(kGenerate, prompt_body(R"("think":true)")).starts_with("<s>True"));
}

TEST_F(OllamaRequestTest, AModelThatCannotThinkSaysSo) {
  use_template("{# <tool_call> #}");
  EXPECT_EQ(refusal(kChat, message_body(R"("think":true)")), R"("m" does not support thinking)");
  EXPECT_EQ(refusal(kChat, message_body(R"("think":"low")")), R"("m" does not support thinking)");
  EXPECT_EQ(ask(message_body(R"("think":false)")).status, 200);
  EXPECT_EQ(ask(message_body()).status, 200);
}

TEST_F(OllamaRequestTest, FormatsBecomeConstraints) {
  for (const char* fields : {R"("format":"json")", R"("format":{"type":"integer"})", R"("format":{})"}) {
    EXPECT_TRUE(submitted(kChat, message_body(fields))->request.constraint.grammar) << fields;
    EXPECT_TRUE(submitted(kGenerate, prompt_body(fields))->request.constraint.grammar) << fields;
    EXPECT_TRUE(submitted(kGenerate, prompt_body(R"("raw":true,)" + std::string(fields)))->request.constraint.grammar)
        << fields;
  }
  EXPECT_FALSE(submitted(kChat, message_body(R"("format":"")"))->request.constraint.grammar);
  EXPECT_NE(refusal(kChat, message_body(R"("format":{"$ref":"#/nowhere"})")).find("format"), std::string::npos);
}

TEST_F(OllamaRequestTest, WhatGenerateLacksIsRefusedByName) {
  EXPECT_EQ(refusal(kGenerate, prompt_body(R"("suffix":"}")")), R"("m" does not support insert)");
  EXPECT_EQ(refusal(kGenerate, prompt_body(R"("template":"{{ .Prompt }}")")), "template override is not supported");
  for (const char* fields : {R"("system":"s")", R"("template":"t")", R"("context":[1])"}) {
    EXPECT_EQ(refusal(kGenerate, prompt_body(R"("raw":true,)" + std::string(fields))),
              "raw mode does not support template, system, or context");
  }
  EXPECT_EQ(generate(prompt_body(R"("template":"","system":"","suffix":"","context":[],"tools":[1],"width":5)")).status,
            200);
}

TEST_F(OllamaRequestTest, APromptThatDoesNotFitIsRefusedWithBothNumbers) {
  service_.set_context_length(20);
  const std::string body = message_body({}, "\"0123456789\"");
  EXPECT_EQ(refusal(kChat, body), "prompt too long; exceeded max context length by 8 tokens (28 tokens, context 20)");
  EXPECT_EQ(refusal(kChat, message_body(R"("truncate":true)", "\"0123456789\"")),
            "prompt too long; exceeded max context length by 8 tokens (28 tokens, context 20)")
      << "the last message always stays";
}

TEST_F(OllamaRequestTest, TruncationDropsTheOldestMessagesAndKeepsTheSystem) {
  const std::string messages =
      R"({"role":"system","content":"S"},{"role":"user","content":"one"},{"role":"assistant","content":"two"},)"
      R"({"role":"user","content":"three"})";
  const std::string body = R"({"truncate":true,"messages":[)" + messages + "]}";
  service_.set_context_length(56);
  EXPECT_EQ(prompt_of(kChat, body),
            "<s><turn>system:S<turn>user:one<turn>assistant:two<turn>user:three<turn>assistant:");
  service_.set_context_length(55);
  EXPECT_EQ(prompt_of(kChat, body), "<s><turn>system:S<turn>assistant:two<turn>user:three<turn>assistant:");
  service_.set_context_length(40);
  EXPECT_EQ(prompt_of(kChat, body), "<s><turn>system:S<turn>user:three<turn>assistant:");
  service_.set_context_length(30);
  EXPECT_EQ(ask(body).status, 400);
}

}  // namespace
}  // namespace tempo9::testing
