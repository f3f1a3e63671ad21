// Several answers to one chat request, and answers that go on with a message.
#include <map>

#include "server/server_fixture.h"

namespace tempo9::testing {
namespace {

using engine::FinishReason;

class ChoicesTest : public ServerTest {
 protected:
  // The content of each choice of a stream.
  static std::map<int, std::string> streamed_contents(const std::string& body) {
    std::map<int, std::string> contents;
    for (const std::string& event : sse_events(body)) {
      if (event == "[DONE]") continue;
      const Json chunk = Json::parse(event);
      for (const Json& choice : chunk["choices"]) {
        contents[choice["index"].get<int>()] += choice["delta"].value("content", "");
      }
    }
    return contents;
  }
};

TEST_F(ChoicesTest, EveryChoiceIsASequenceOfItsOwn) {
  HttpClient client(port());
  client.request("POST", "/v1/chat/completions", chat_body(R"("n":3,"seed":7,"temperature":1)"));
  std::vector<std::shared_ptr<ScriptedStream>> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(service_.next_stream());
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(streams[i]);
    EXPECT_EQ(streams[i]->request.prompt, streams[0]->request.prompt);
    EXPECT_EQ(streams[i]->request.sampling.seed, 7 + i) << "the same seed would give the same answer three times";
  }
  for (const size_t i : {2, 0, 1}) {
    streams[i]->push(text_event("answer " + std::to_string(i)));
    streams[i]->push(last_event(i == 1 ? FinishReason::kLength : FinishReason::kStop,
                                {.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 5}));
  }
  const Json body = parse(client.read_reply().body);
  ASSERT_EQ(body["choices"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["message"]["content"], "answer " + std::to_string(i));
    EXPECT_EQ(body["choices"][i]["finish_reason"], i == 1 ? "length" : "stop");
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], 10) << "the prompt counts once";
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(body["usage"]["completion_tokens"], 15);
}

TEST_F(ChoicesTest, ChunksOfAStreamNameTheirChoice) {
  service_.answer_with({"Hel", "lo"});
  const std::string body = chat(chat_body(R"("n":2,"stream":true,"stream_options":{"include_usage":true})")).body;
  EXPECT_EQ(streamed_contents(body), (std::map<int, std::string>{{0, "Hello"}, {1, "Hello"}}));
  std::map<int, int> roles;
  std::map<int, int> finishes;
  int n_usage = 0;
  const std::vector<std::string> events = sse_events(body);
  for (const std::string& event : events) {
    if (event == "[DONE]") continue;
    const Json chunk = Json::parse(event);
    n_usage += chunk["choices"].empty();
    for (const Json& choice : chunk["choices"]) {
      roles[choice["index"].get<int>()] += choice["delta"].contains("role");
      finishes[choice["index"].get<int>()] += !choice["finish_reason"].is_null();
    }
  }
  EXPECT_EQ(roles, (std::map<int, int>{{0, 1}, {1, 1}}));
  EXPECT_EQ(finishes, (std::map<int, int>{{0, 1}, {1, 1}}));
  EXPECT_EQ(n_usage, 1);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(ChoicesTest, AFailureOfOneEndsThemAll) {
  HttpClient client(port());
  client.request("POST", "/v1/chat/completions", chat_body(R"("n":2)"));
  const auto first = service_.next_stream();
  const auto second = service_.next_stream();
  ASSERT_TRUE(first && second);
  second->push(failed_event(Error(ErrorCode::kInternal, "engine failed")));
  EXPECT_EQ(client.read_reply().status, 500);
  EXPECT_TRUE(first->wait_cancelled());
}

TEST_F(ChoicesTest, AClientThatGoesCancelsAllOfThem) {
  HttpClient client(port());
  client.request("POST", "/v1/chat/completions", chat_body(R"("n":3,"stream":true)"));
  std::vector<std::shared_ptr<ScriptedStream>> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(service_.next_stream());
  client.reset();
  for (const auto& stream : streams) EXPECT_TRUE(stream && stream->wait_cancelled());
}

TEST_F(ChoicesTest, AnAnswerGoesOnWithTheLastMessage) {
  service_.answer_with({" two."});
  const HttpReply reply =
      chat(R"({"messages":[{"role":"user","content":"Count."},{"role":"assistant","content":"One, "}],)"
           R"("continue_final_message":true,"add_generation_prompt":false})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(parse(reply.body)["choices"][0]["message"]["content"], " two.");
  EXPECT_EQ(tokenizer_.decode(service_.next_stream()->request.prompt, true),
            "<s><turn>user:Count.<turn>assistant:One,");
}

}  // namespace
}  // namespace tempo9::testing
