// Bodies that are nearly right, on every route that takes one: none of them may bring the server down, be answered with
// a failure of the server, or spoil the answer to the next request. Field reports F08, F10.
//
// A few hundred of each by default; TEMPO9_MUTATIONS=100000 for the long run.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cctype>
#include <cstdlib>
#include <random>

#include "server/server_fixture.h"

namespace tempo9::testing {
namespace {

using namespace std::literals;

struct Target {
  std::string_view path;
  std::vector<std::string_view> seeds;
};

// What each API's clients send, with every kind of field.
const std::vector<Target>& targets() {
  static const std::vector<Target> kTargets = {
      {"/v1/chat/completions",
       {R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"hi"}]},
        {"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c","type":"function",
        "function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"1"}],
        "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",
        "properties":{"x":{"type":"integer"}}},"strict":false}}],"tool_choice":"auto","n":2,"stream":true,
        "stream_options":{"include_usage":true},"temperature":0.5,"top_p":0.9,"top_k":5,"seed":1,"stop":["a","b"],
        "max_tokens":5,"logit_bias":{"97":-1},"logprobs":true,"top_logprobs":2,"reasoning_effort":"low"})",
        R"({"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"n",
        "strict":true,"schema":{"type":"object","properties":{"a":{"type":"string","maxLength":4}},"required":["a"],
        "additionalProperties":false}}},"chat_template_kwargs":{"enable_thinking":false}})",
        R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"continue_final_message":true})"}},
      {"/v1/completions",
       {R"({"model":"m","prompt":["a","b"],"n":2,"best_of":2,"max_tokens":4,"stream":true,"logprobs":2,"stop":"x",
        "temperature":1,"logit_bias":{"1":2}})",
        R"({"prompt":[[97,98],[99]],"echo":true,"seed":5,"suffix":null})", R"({"prompt":[1,2,3]})"}},
      {"/v1/responses",
       {R"({"model":"m","instructions":"s","input":[{"role":"developer","content":[{"type":"input_text","text":"d"}]},
        {"role":"user","content":"hi"},{"type":"reasoning","summary":[{"type":"summary_text","text":"r"}],
        "encrypted_content":"dDk6cg=="},{"type":"function_call","call_id":"c","name":"f","namespace":"n",
        "arguments":"{\"x\":1}"},{"type":"custom_tool_call","call_id":"d","name":"p","input":"i"},
        {"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"1"}]},
        {"type":"custom_tool_call_output","call_id":"d","output":"ok"},{"type":"item_reference","id":"msg_1"},
        {"type":"additional_tools","tools":[{"type":"custom","name":"q"}]}],"tools":[{"type":"function","name":"g",
        "parameters":{"type":"object","properties":{"x":{"type":"integer"}}},"strict":false},{"type":"namespace",
        "name":"n","tools":[{"type":"function","name":"f"}]},{"type":"custom","name":"p","format":{"type":"grammar",
        "syntax":"lark","definition":"s: x"}},{"type":"web_search"},{"type":"local_shell"}],"tool_choice":"auto",
        "parallel_tool_calls":true,"reasoning":{"effort":"low","summary":"auto"},"include":[
        "reasoning.encrypted_content","message.output_text.logprobs"],"top_logprobs":2,"store":true,"stream":true,
        "temperature":1,"top_p":0.5,"max_output_tokens":7,"truncation":"auto","metadata":{"a":"b"}})",
        R"({"input":"x","text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object",
        "properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}}}})",
        R"({"input":[{"role":"user","content":"x"}],"tools":[{"type":"function","name":"g"}],"tool_choice":{
        "type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]},"previous_response_id":null})"}},
      {"/v1/messages",
       {R"({"model":"m","max_tokens":9,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
        "messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[
        {"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"t1","name":"f","input":{"x":1}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text",
        "text":"r"},{"type":"image","source":{"type":"base64","data":""}}]}]}],"tools":[{"name":"f","description":"d",
        "input_schema":{"type":"object","properties":{"x":{"type":"integer"}}}}],"tool_choice":{"type":"auto",
        "disable_parallel_tool_use":true},"thinking":{"type":"enabled","budget_tokens":5},"stream":true,
        "stop_sequences":["z"],"temperature":0.1,"top_k":3,"output_config":{"effort":"low"}})",
        R"({"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],
        "output_config":{"format":null}})"}},
      {"/v1/messages/count_tokens", {R"({"messages":[{"role":"user","content":"a"}],"tools":[],"system":"s"})"}},
      {"/api/chat",
       {R"({"model":"m","messages":[{"role":"user","content":"hi","images":[]},{"role":"assistant","content":"",
        "thinking":"t","tool_calls":[{"function":{"index":0,"name":"f","arguments":{"x":1}}}]},{"role":"tool",
        "tool_name":"f","content":"1"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",
        "properties":{"x":{"type":["string","null"]}}}}}],"think":false,"keep_alive":"5m","truncate":true,
        "options":{"temperature":0.1,"top_k":4,"num_predict":3,"stop":["a"],"seed":-1,"num_ctx":9},"logprobs":true,
        "top_logprobs":3})",
        R"({"messages":[{"role":"user","content":"hi"}],"format":{"type":"object","properties":{"a":{"enum":[1,"b"]}}},
        "stream":false})",
        R"({"model":"m","messages":[],"keep_alive":0})"}},
      {"/api/generate",
       {R"({"model":"m","prompt":"p","system":"s","template":"","context":[1,2,3],"raw":false,"stream":true,
        "options":{"repeat_penalty":1.1,"repeat_last_n":8},"format":"json"})",
        R"({"prompt":"<turn>x","raw":true,"suffix":"","images":null})"}},
      {"/api/show", {R"({"model":"m","verbose":true})", R"({"name":"m"})"}},
      {"/api/pull", {R"({"model":"tiny","stream":true})"}},
      {"/api/embed", {R"({"model":"m","input":["a"]})"}},
      {"/v1/embeddings", {R"({"model":"m","input":"a"})"}},
  };
  return kTargets;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string mutate(std::string_view seed) {
    std::string body(seed);
    if (below(2) == 0) {
      Json json = Json::parse(body);
      for (size_t n = 1 + below(3); n > 0; --n) change_value(json);
      body = json.dump();
    }
    for (size_t n = below(4); n > 0; --n) change_bytes(body);
    return body;
  }

 private:
  size_t below(size_t n) { return random_() % n; }

  Json any_value() {
    static const std::vector<Json> kValues = {nullptr,
                                              true,
                                              false,
                                              0,
                                              1,
                                              -1,
                                              1.5,
                                              -0.0,
                                              1e308,
                                              9223372036854775807LL,
                                              18446744073709551615ULL,
                                              "",
                                              "a",
                                              "\xF0\x9F\x98\x80",
                                              "text",
                                              "function",
                                              "auto",
                                              std::string(300, 'x'),
                                              Json::array(),
                                              Json::object(),
                                              Json::array({nullptr}),
                                              Json::array({Json::array()}),
                                              Json{{"type", "text"}},
                                              Json{{"$ref", "#"}},
                                              "<turn>"};
    return kValues[below(kValues.size())];
  }

  // One value somewhere in the document becomes another, goes, or comes twice.
  void change_value(Json& json) {
    Json* node = &json;
    while (!node->empty() && node->is_structured()) {
      const size_t at = below(node->size());
      if (below(4) > 0) {
        auto child = node->begin();
        std::advance(child, at);
        node = &*child;
        continue;
      }
      if (node->is_array() && below(2) == 0) {
        node->push_back((*node)[at]);
      } else if (node->is_array()) {
        node->erase(at);
      } else {
        auto key = node->begin();
        std::advance(key, at);
        node->erase(key.key());
      }
      return;
    }
    *node = any_value();
  }

  void change_bytes(std::string& body) {
    constexpr std::string_view kBytes = "\"{}[]:,\\u0d8\x00\xff\x80\xC3 9e-tn"sv;
    const size_t at = body.empty() ? 0 : below(body.size());
    switch (below(5)) {
      case 0:
        body.insert(at, 1, kBytes[below(kBytes.size())]);
        break;
      case 1:
        if (!body.empty()) body[at] = static_cast<char>(random_());
        break;
      case 2:
        body.erase(at, 1 + below(8));
        break;
      case 3:
        body.insert(at, body.substr(at, below(20)));
        break;
      case 4:
        if (below(4) == 0) body.resize(at);
        break;
    }
  }

  std::mt19937 random_;
};

size_t n_mutations() {
  const char* asked = std::getenv("TEMPO9_MUTATIONS");
  return asked ? static_cast<size_t>(std::atoll(asked)) : 300;
}

class MutatedBodiesTest : public ServerTest, public ::testing::WithParamInterface<Target> {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    chat_format_ =
        chat::ChatFormat::from_source("{# <tool_call> <think> #}" + std::string(kTestTemplate), "<s>", "</s>");
    restart({});
    service_.answer_with({"fine"});
  }
  void TearDown() override {
    ServerTest::TearDown();
    spdlog::set_level(spdlog::level::info);
  }

  // Of the client's making, or said to be not there.
  static bool is_right_status(int status, std::string_view path) {
    const bool has_501 = path.starts_with("/api/embed") || path == "/api/pull" || path == "/v1/embeddings";
    return status == 200 || status == 400 || (status == 501 && has_501);
  }
  // Forgets requests that were submitted.
  void forget_streams(size_t& n_seen) {
    for (; n_seen < service_.n_submitted(); ++n_seen) service_.next_stream();
  }
};

TEST_P(MutatedBodiesTest, AreRefusedOrAnsweredAndTheNextRequestIsRight) {
  const auto& [path, seeds] = GetParam();
  Mutator mutator(17);
  HttpClient client(port());
  size_t n_seen = 0;
  for (size_t i = 0; i < n_mutations(); ++i) {
    const std::string body = mutator.mutate(seeds[i % seeds.size()]);
    ASSERT_TRUE(client.request("POST", path, body));
    const HttpReply reply = client.read_reply();
    ASSERT_TRUE(reply.is_complete) << body;
    ASSERT_TRUE(is_right_status(reply.status, path)) << reply.status << " for " << body << "\n" << reply.body;
    ASSERT_TRUE(reply.status == 200 || parse(reply.body).is_object()) << body << "\n" << reply.body;
    forget_streams(n_seen);
    if (i % 100 != 0) continue;
    client.request("POST", "/v1/chat/completions", chat_body());
    ASSERT_EQ(parse(client.read_reply().body)["choices"][0]["message"]["content"], "fine");
    forget_streams(n_seen);
  }
}

std::string test_name(const ::testing::TestParamInfo<Target>& info) {
  std::string name;
  for (const char c : info.param.path.substr(1)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Routes, MutatedBodiesTest, ::testing::ValuesIn(targets()), test_name);

}  // namespace
}  // namespace tempo9::testing
