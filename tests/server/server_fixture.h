// A real server on a free port, with a scripted engine and a byte tokenizer behind it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "chat/chat_format.h"
#include "server/byte_tokenizer.h"
#include "server/http_client.h"
#include "server/json.h"
#include "server/scripted_service.h"
#include "server/server.h"
#include "support/data.h"

namespace tempo9::testing {

using chat::Json;

// Every message as "<turn>role:content", then the start of the answer.
inline constexpr std::string_view kTestTemplate =
    "{% for m in messages %}<turn>{{ m.role }}:{{ m.content }}{% endfor %}"
    "{% if tools %}<turn>tools:{{ tools | length }}{% endif %}<turn>assistant:";

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { restart({}); }
  void TearDown() override { server_->stop(2000); }

  void restart(const server::HttpLimits& limits) {
    server_.reset();
    auto started = server::Server::start({.engine = service_,
                                          .tokenizer = tokenizer_,
                                          .chat_format = chat_format_,
                                          .model = model_card_,
                                          .sampling_defaults = sampling_defaults_,
                                          .images = images_},
                                         {.port = 0, .limits = limits});
    ASSERT_TRUE(started) << started.error().message();
    server_ = std::move(*started);
  }

  // The dialect of the model's text, and whether it can think, follow from what its template mentions.
  void use_template(const std::string& mark, const std::string& tail = "") {
    chat_format_ = chat::ChatFormat::from_source(mark + std::string(kTestTemplate) + tail, "<s>", "</s>");
    restart({});
  }

  // Every text of the collection of tool cases as the model's answer, cut at random, under a template of its dialect:
  // calls check(item, tools, is_cut). `thinking` is mentioned beside the tags of calls that go with it.
  template <class Check>
  void for_each_tool_case(uint32_t seed, Check check, const std::string& thinking = "") {
    const std::vector<std::pair<std::string, std::string>> marks = {
        {"hermes-json", "{# <tool_call> " + thinking + " #}"},
        {"qwen-xml", "{# <tool_call> <function= " + thinking + " #}"},
        {"llama3", "{# <|python_tag|> #}"},
        {"mistral-json", "{# [TOOL_CALLS] #}"},
        {"gemma4", "{# <|tool_call> #}"},
        {"mistral-v13", "{# [TOOL_CALLS] [ARGS] #}"},
        {"generic", ""},
        {"harmony", "{# <|channel|> <|message|> #}"}};
    std::mt19937 random(seed);
    for (const auto& [name, mark] : marks) {
      use_template(mark);
      ASSERT_EQ(chat_format_.dialect().name, name);
      const Json file = Json::parse(std::ifstream(golden_path("toolcases/" + name + ".json")));
      for (const Json& item : file["cases"]) {
        SCOPED_TRACE(name + " " + item["name"].get<std::string>());
        const std::string text = item["text"];
        std::vector<std::string> pieces;
        for (size_t at = 0; at < text.size();) {
          const size_t n = 1 + random() % 9;
          pieces.push_back(text.substr(at, n));
          at += n;
        }
        const bool is_cut = item.value("end", "stop") == "length";
        service_.answer_with(pieces, is_cut ? engine::FinishReason::kLength : engine::FinishReason::kStop);
        check(item, item.contains("tools") ? item["tools"] : file["tools"], is_cut);
      }
    }
  }

  uint16_t port() const { return server_->port(); }
  HttpReply get(std::string_view path, std::string_view headers = {}) {
    return http_request(port(), "GET", path, {}, headers);
  }
  HttpReply post(std::string_view path, std::string_view body, std::string_view headers = {}) {
    return http_request(port(), "POST", path, body, headers);
  }
  HttpReply chat(std::string_view body) { return post("/v1/chat/completions", body); }
  // A request with one message and the further fields given.
  static std::string chat_body(std::string_view fields = {}, std::string_view content = "hi") {
    std::string body = R"({"messages":[{"role":"user","content":")" + std::string(content) + "\"}]";
    if (!fields.empty()) body += "," + std::string(fields);
    return body + "}";
  }
  static Json parse(const std::string& text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

  ScriptedService service_;
  ByteTokenizer tokenizer_;
  chat::ChatFormat chat_format_ = chat::ChatFormat::from_source(kTestTemplate, "<s>", "</s>");
  server::SamplingDefaults sampling_defaults_;
  server::ModelCard model_card_{.name = "tiny", .created_s = 1767225600, .context_length = 4096};
  const server::ImageInput* images_ = nullptr;
  std::unique_ptr<server::Server> server_;
};

}  // namespace tempo9::testing
