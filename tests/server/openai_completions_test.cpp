// /v1/completions: requests and answers.
#include <random>

#include "server/server_fixture.h"

namespace tempo9::testing {
namespace {

using engine::FinishReason;

class CompletionsTest : public ServerTest {
 protected:
  static std::string body_of(std::string_view prompt, std::string_view fields = {}) {
    return R"({"model":"m","prompt":)" + std::string(prompt) + (fields.empty() ? "" : "," + std::string(fields)) + "}";
  }
  HttpReply ask(std::string_view body) { return post("/v1/completions", body); }

  // The whole object of a stream, as a client joins it.
  static Json joined(const std::string& body, size_t n_choices) {
    Json whole;
    std::vector<Json> choices(n_choices);
    for (const std::string& event : sse_events(body)) {
      if (event == "[DONE]") continue;
      whole = Json::parse(event);
      EXPECT_EQ(whole["object"], "text_completion");
      for (const Json& choice : whole["choices"]) {
        Json& all = choices.at(choice["index"].get<size_t>());
        if (all.is_null()) {
          all = choice;
          continue;
        }
        EXPECT_TRUE(all["finish_reason"].is_null()) << "nothing comes after the finish";
        all["finish_reason"] = choice["finish_reason"];
        all["text"].get_ref<std::string&>() += choice["text"].get<std::string>();
        if (choice["logprobs"].is_null()) continue;
        if (all["logprobs"].is_null()) {
          all["logprobs"] = choice["logprobs"];
          continue;
        }
        for (const auto& [key, list] : choice["logprobs"].items()) {
          for (const Json& item : list) all["logprobs"][key].push_back(item);
        }
      }
    }
    EXPECT_TRUE(body.ends_with("data: [DONE]\n\n"));
    whole["choices"] = choices;
    return whole;
  }
  // The same whole and streamed.
  Json both(std::string body, size_t n_choices = 1) {
    Json whole = parse(ask(body).body);
    body.insert(1, R"("stream":true,"stream_options":{"include_usage":true},)");
    Json streamed = joined(ask(body).body, n_choices);
    for (Json* object : {&whole, &streamed}) {
      object->erase("id");
      object->erase("created");
    }
    EXPECT_EQ(streamed, whole);
    return whole;
  }
  std::string refused_field(const std::string& body) {
    const HttpReply reply = ask(body);
    EXPECT_EQ(reply.status, 400) << body << reply.body;
    const Json error = parse(reply.body)["error"];
    return error.is_object() && error["param"].is_string() ? error["param"] : "";
  }
};

TEST_F(CompletionsTest, TextGoesInAndComesOutAsItIs) {
  service_.answer_with({"<think>", "a</think>", " b"});
  const Json reply = both(body_of(R"("<turn>x")"));
  EXPECT_EQ(reply["choices"][0]["text"], "<think>a</think> b");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(reply["choices"][0]["logprobs"].is_null());
  const auto stream = service_.next_stream();
  EXPECT_EQ(stream->request.prompt, (std::vector<int32_t>{ByteTokenizer::kBos, ByteTokenizer::kTurn, int32_t{'x'}}));
  EXPECT_EQ(stream->request.max_tokens, 16) << "the default of this API";
}

TEST_F(CompletionsTest, PromptsAreStringsOrTokenIdsOrListsOfThem) {
  service_.answer_with({"x"});
  EXPECT_EQ(both(body_of(R"(["a"])"))["choices"].size(), 1u);
  EXPECT_EQ(both(body_of("[97,98]"))["choices"].size(), 1u);
  const auto ids = [&] { return service_.next_stream()->request.prompt; };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ids(), (std::vector<int32_t>{ByteTokenizer::kBos, int32_t{'a'}}));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ids(), (std::vector<int32_t>{97, 98})) << "ids are the prompt as they are";
  EXPECT_EQ(both(body_of(R"(["a","b"])"), 2)["choices"].size(), 2u);
  const Json four = both(body_of("[[97],[98]]", R"("n":2)"), 4);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(four["choices"][i]["index"], i);
  for (int i = 0; i < 4; ++i) ids();
  EXPECT_EQ(ids(), std::vector<int32_t>{97});
  EXPECT_EQ(ids(), std::vector<int32_t>{97});
  EXPECT_EQ(ids(), std::vector<int32_t>{98}) << "prompt by prompt";
}

TEST_F(CompletionsTest, UsageCountsEachPromptOnce) {
  service_.play({text_event("x"), last_event(FinishReason::kLength, {.prompt_tokens = 5, .completion_tokens = 3})});
  const Json reply = both(body_of(R"(["a","b"])", R"("n":2)"), 4);
  EXPECT_EQ(reply["usage"]["prompt_tokens"], 10);
  EXPECT_EQ(reply["usage"]["completion_tokens"], 12);
  EXPECT_EQ(reply["choices"][3]["finish_reason"], "length");
}

TEST_F(CompletionsTest, EchoPutsThePromptInFront) {
  service_.answer_with({"de"});
  EXPECT_EQ(both(body_of(R"("abc")", R"("echo":true)"))["choices"][0]["text"], "abcde");
  EXPECT_EQ(both(body_of("[97,258]", R"("echo":true)"))["choices"][0]["text"], "a<turn>de");
}

TEST_F(CompletionsTest, LogprobsAreListsSideBySide) {
  std::vector<engine::Event> events;
  for (const char* text : {"G", "r\u00fc", "n"}) {
    events.push_back(text_event(text));
    events.back().tokens = {1};
    events.back().logprobs = {{.chosen = {1, -0.5f}, .top = {{97, -0.5f}, {98, -2.0f}}, .bytes = text}};
  }
  events.push_back(last_event(FinishReason::kStop));
  service_.play(events);
  const Json logprobs = both(body_of(R"("x")", R"("logprobs":2)"))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"G", "r\u00fc", "n"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json({-0.5, -0.5, -0.5}));
  EXPECT_EQ(logprobs["top_logprobs"][0], Json({{"a", -0.5}, {"b", -2.0}}));
  EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 3})) << "in characters";
  EXPECT_EQ(service_.next_stream()->request.top_logprobs, 2);
}

TEST_F(CompletionsTest, WhatIsNotBuiltOrNotRightIsRefusedByName) {
  EXPECT_EQ(refused_field("{}"), "prompt");
  EXPECT_EQ(refused_field(body_of("5")), "prompt");
  EXPECT_EQ(refused_field(body_of("[]")), "prompt");
  EXPECT_EQ(refused_field(body_of(R"([5,"a"])")), "prompt[1]");
  EXPECT_EQ(refused_field(body_of(R"(["a",5])")), "prompt[1]");
  EXPECT_EQ(refused_field(body_of("[[]]")), "prompt[0]");
  EXPECT_EQ(refused_field(body_of("[-1]")), "prompt[0]");
  EXPECT_EQ(refused_field(body_of("[1e99]")), "prompt[0]");
  EXPECT_EQ(refused_field(body_of(R"("x")", R"("n":9)")), "n");
  EXPECT_EQ(refused_field(body_of(R"(["a","b","c"])", R"("n":3)")), "n");
  EXPECT_EQ(refused_field(body_of(R"("x")", R"("best_of":2)")), "best_of");
  EXPECT_EQ(refused_field(body_of(R"("x")", R"("suffix":"}")")), "suffix");
  EXPECT_EQ(refused_field(body_of(R"("x")", R"("logprobs":6)")), "logprobs");
  EXPECT_EQ(refused_field(body_of(R"("x")", R"("logprobs":1,"echo":true)")), "echo");
  EXPECT_EQ(refused_field(body_of(R"("x")", R"("max_tokens":0)")), "max_tokens");
  EXPECT_EQ(refused_field(body_of(R"("x")", R"("temperature":"warm")")), "temperature");
  service_.answer_with({"x"});
  EXPECT_EQ(ask(body_of(R"("x")", R"("best_of":2,"n":2,"suffix":"","user":5,"unheard":[],"stream":null)")).status, 200);
}

TEST_F(CompletionsTest, APromptThatDoesNotFitIsRefusedBeforeAnyOfThemRuns) {
  service_.set_context_length(10);
  const HttpReply reply = ask(body_of(R"(["a","0123456789"])"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(parse(reply.body)["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(service_.n_submitted(), 0u);
}

TEST_F(CompletionsTest, StopStringsMatchAllText) {
  service_.answer_with({"x"});
  ask(body_of(R"("x")", R"("stop":["</think>"])"));
  EXPECT_EQ(service_.next_stream()->request.stop, std::vector<std::string>{"</think>"});
}

TEST_F(CompletionsTest, JoinedStreamsEqualWholeAnswersHoweverTheTextIsCut) {
  const std::string text = "Gr\u00fc\u00dfe, <tool_call>{\"a\": 1}</tool_call>\n\n\U0001F600 \"x\" \\ end";
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      size_t n = 1 + random() % 7;
      while (at + n < text.size() && (static_cast<unsigned char>(text[at + n]) & 0xC0) == 0x80) ++n;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    service_.answer_with(pieces);
    EXPECT_EQ(both(body_of(R"("x")"))["choices"][0]["text"], text);
  }
}

}  // namespace
}  // namespace tempo9::testing
