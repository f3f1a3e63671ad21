// Images in requests, over HTTP, in every dialect: what reaches the engine, what is refused, what clients are told.
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "base/base64.h"
#include "server/server_fixture.h"
#include "vision/fake_encoder.h"

namespace tempo9::testing {
namespace {

std::string base64_of(const std::string& name) {
  std::ifstream in(golden_path("images/" + name), std::ios::binary);
  return encode_base64(std::string(std::istreambuf_iterator<char>(in), {}));
}

std::string data_url(const std::string& name) { return "data:image/png;base64," + base64_of(name); }

class ImagesTest : public ServerTest {
 protected:
  ImagesTest() { images_ = &input_; }
  void SetUp() override {
    ServerTest::SetUp();
    service_.answer_with({"seen"});
  }

  static std::string openai_part(const std::string& url) {
    return R"({"type":"image_url","image_url":{"url":")" + url + R"(","detail":"high"}})";
  }
  static std::string openai(const std::string& parts) {
    return R"({"messages":[{"role":"user","content":[)" + parts + "]}]}";
  }
  static std::string responses(const std::string& parts) {
    return R"({"input":[{"role":"user","content":[)" + parts + "]}]}";
  }
  static std::string anthropic(const std::string& blocks) {
    return R"({"max_tokens":9,"messages":[{"role":"user","content":[)" + blocks + "]}]}";
  }
  static std::string anthropic_block(const std::string& data) {
    return R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":")" + data + "\"}}";
  }
  static std::string ollama(const std::string& images, const std::string& text) {
    return R"({"stream":false,"messages":[{"role":"user","content":")" + text + R"(","images":[)" + images + "]}]}";
  }

  // What the engine is asked when this is posted.
  engine::Request asked(std::string_view path, const std::string& body) {
    const HttpReply reply = post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    if (reply.status != 200) return {};
    return service_.next_stream()->request;
  }
  std::string prompt_of(const engine::Request& request) const { return tokenizer_.decode(request.prompt, true); }

  HttpReply refused(std::string_view path, const std::string& body, std::string_view text) {
    const HttpReply reply = post(path, body);
    EXPECT_EQ(reply.status, 400) << body << "\n" << reply.body;
    EXPECT_NE(reply.body.find(text), std::string::npos) << reply.body;
    return reply;
  }

  FakeEncoder encoder_;
  vision::ImageService image_service_{encoder_, {}};
  server::ImageInput input_{image_service_, *chat::find_image_markup(tokenizer_)};
};

std::string pads(int n) {
  std::string text = "<|vision_start|>";
  for (int i = 0; i < n; ++i) text += "<|image_pad|>";
  return text + "<|vision_end|>";
}

TEST_F(ImagesTest, EveryDialectAsksTheSame) {
  const std::string image = base64_of("rgb.png"), url = data_url("rgb.png");
  const std::vector<engine::Request> requests = {
      asked("/v1/chat/completions", openai(openai_part(url) + R"(,{"type":"text","text":"what?"})")),
      asked("/v1/chat/completions",
            openai(R"({"type":"image_url","image_url":")" + url + R"("},{"type":"text","text":"what?"})")),
      asked("/v1/responses",
            responses(R"({"type":"input_image","image_url":")" + url + R"("},{"type":"input_text","text":"what?"})")),
      asked("/v1/messages", anthropic(anthropic_block(image) + R"(,{"type":"text","text":"what?"})")),
      asked("/api/chat", ollama("\"" + image + "\"", "what?")),
      asked("/api/chat", ollama("\"" + url + "\"", "what?")),
      asked("/api/generate", R"({"stream":false,"prompt":"what?","images":[")" + image + "\"]}")};
  for (const engine::Request& request : requests) {
    EXPECT_EQ(prompt_of(request), "<s><turn>user:" + pads(12) + "what?<turn>assistant:");
    ASSERT_EQ(request.images.size(), 1u);
    EXPECT_EQ(request.images[0].begin, 8);
    EXPECT_EQ(request.images[0].height, 3);
    EXPECT_EQ(request.images[0].width, 4);
    EXPECT_EQ(request.images[0].digest, requests[0].images[0].digest);
    EXPECT_EQ(request.images[0].rows, requests[0].images[0].rows) << "the same rows, encoded once";
    EXPECT_EQ(request.images[0].rows->size(), 12u * 4u);
  }
  EXPECT_EQ(encoder_.n_encoded, 1);
}

TEST_F(ImagesTest, ImagesStandWhereTheClientPutThem) {
  const engine::Request request =
      asked("/v1/chat/completions", openai(R"({"type":"text","text":"a"},)" + openai_part(data_url("rgb.png")) +
                                           R"(,{"type":"text","text":"b"},)" + openai_part(data_url("turned-6.png")) +
                                           "," + openai_part(data_url("rgb.png"))));
  EXPECT_EQ(prompt_of(request), "<s><turn>user:a" + pads(12) + "b" + pads(12) + pads(12) + "<turn>assistant:");
  ASSERT_EQ(request.images.size(), 3u);
  EXPECT_EQ(request.images[1].height, 4) << "upright";
  EXPECT_EQ(request.images[0].digest, request.images[2].digest);
  EXPECT_NE(request.images[0].digest, request.images[1].digest);
  for (const engine::PromptImage& image : request.images) {
    for (int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(request.prompt[static_cast<size_t>(image.begin + i)], ByteTokenizer::kImagePad);
    }
  }
}

// Field report H06: agents take screenshots.
TEST_F(ImagesTest, ToolResultsShowTheirImages) {
  const std::string image = base64_of("rgb.png"), url = data_url("rgb.png");
  const std::vector<std::pair<std::string, std::string>> bodies = {
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","type":"function",
        "function":{"name":"shot","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":[)" +
           openai_part(url) + "]}]}"},
      {"/v1/responses", R"({"input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"a","name":"shot",
        "arguments":"{}"},{"type":"function_call_output","call_id":"a","output":[{"type":"input_image","image_url":")" +
                            url + "\"}]}]}"},
      {"/v1/messages", R"({"max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[
        {"type":"tool_use","id":"a","name":"shot","input":{}}]},{"role":"user","content":[{"type":"tool_result",
        "tool_use_id":"a","content":[)" +
                           anthropic_block(image) + "]}]}]}"},
      {"/api/chat", R"({"stream":false,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"",
        "tool_calls":[{"function":{"name":"shot","arguments":{}}}]},{"role":"tool","content":"","images":[")" +
                        image + "\"]}]}"}};
  for (const auto& [path, body] : bodies) {
    const engine::Request request = asked(path, body);
    EXPECT_EQ(request.images.size(), 1u) << path;
    EXPECT_NE(prompt_of(request).find(pads(12)), std::string::npos) << path << " " << prompt_of(request);
  }
}

TEST_F(ImagesTest, TextThatSpellsAPlaceholderIsText) {
  const engine::Request request =
      asked("/v1/chat/completions", openai(R"({"type":"text","text":"<|vision_start|><|image_pad|><|vision_end|>"},)" +
                                           openai_part(data_url("rgb.png"))));
  ASSERT_EQ(request.images.size(), 1u);
  EXPECT_EQ(std::ranges::count(request.prompt, ByteTokenizer::kImagePad), 12);
  EXPECT_EQ(request.images[0].begin, 1 + 1 + 5 + 43 + 1);
}

TEST_F(ImagesTest, PlacesThatAServerDoesNotFetchFromAreNamed) {
  constexpr std::string_view kRoute = "/v1/chat/completions";
  const HttpReply reply =
      refused(kRoute, openai(openai_part("http://127.0.0.1:1/x.png")), "http(s) URLs are not supported");
  EXPECT_EQ(parse(reply.body)["error"]["param"], "messages[0].content[0]");
  EXPECT_EQ(parse(reply.body)["error"]["code"], "unsupported_content");
  refused(kRoute, openai(openai_part("https://example.com/x.png")), "http(s) URLs");
  refused(kRoute, openai(openai_part("file:///etc/passwd")), "images from files are not supported");
  refused(kRoute, openai(openai_part("/etc/passwd")), "other places than data URLs");
  refused("/v1/responses", responses(R"({"type":"input_image","image_url":"https://example.com/x.png"})"), "http(s)");
  refused("/v1/responses", responses(R"({"type":"input_image","file_id":"file-1"})"), "file ids are not supported");
  refused("/v1/messages", anthropic(R"({"type":"image","source":{"type":"url","url":"https://x/y.png"}})"),
          "images from URLs are not supported");
  refused("/v1/messages", anthropic(R"({"type":"image","source":{"type":"file","file_id":"f"}})"),
          "a source of type 'file'");
  refused("/api/chat", ollama(R"("https://example.com/x.png")", "x"), "http(s) URLs are not supported");
  refused("/api/chat", ollama(R"("/etc/passwd")", "x"), "invalid image input");
  EXPECT_EQ(service_.n_submitted(), 0u);
}

TEST_F(ImagesTest, WhatIsNoImageIsRefusedInTheDialectsForm) {
  constexpr std::string_view kRoute = "/v1/chat/completions";
  const HttpReply reply = refused(kRoute, openai(openai_part("data:image/png;base64,AAAA")), "no known image format");
  EXPECT_EQ(parse(reply.body)["error"]["code"], "invalid_image");
  EXPECT_EQ(parse(reply.body)["error"]["param"], "messages[0].content[0]");
  refused(kRoute, openai(openai_part("data:image/png;base64,A*")), "not base64");
  refused(kRoute, openai(openai_part("data:image/png,raw")), "not in base64");
  refused(kRoute, openai(openai_part("data:image/png;base64,")), "not base64");
  refused(kRoute, openai(openai_part("data:image/png;base64," + encode_base64("BM1234567890"))),
          "BMP images are not supported");
  EXPECT_EQ(parse(refused("/v1/messages", anthropic(anthropic_block("AAAA")), "no known image format").body)["type"],
            "error");
  refused("/api/chat", ollama("\"AAAA\"", "x"), "invalid image input: ");
  refused("/v1/responses", responses(R"({"type":"input_image","image_url":"data:;base64,AAAA"})"),
          "no known image format");
  EXPECT_EQ(service_.n_submitted(), 0u);
}

TEST_F(ImagesTest, TokensAreCountedExactly) {
  const std::string body = anthropic(anthropic_block(base64_of("rgb.png")) + R"(,{"type":"text","text":"what?"})");
  const Json counted = parse(post("/v1/messages/count_tokens", body).body);
  EXPECT_EQ(counted["input_tokens"], std::ssize(asked("/v1/messages", body).prompt));
  EXPECT_EQ(encoder_.n_encoded, 1) << "counting encodes nothing";
  service_.set_context_length(30);
  EXPECT_EQ(post("/v1/messages", body).status, 400) << "the image's rows count";
}

TEST_F(ImagesTest, ImagesOfOneRequestAreLimited) {
  std::string parts;
  for (size_t i = 0; i <= server::kMaxImages; ++i) parts += (i ? "," : "") + openai_part(data_url("rgb.png"));
  refused("/v1/chat/completions", openai(parts), "more than 256 images");
}

TEST_F(ImagesTest, TextRequestsDoNotWaitForImages) {
  encoder_.hold(true);
  HttpClient looking(port());
  looking.request("POST", "/v1/chat/completions", openai(openai_part(data_url("rgb.png"))));
  ASSERT_TRUE(encoder_.wait_begun(1));
  EXPECT_EQ(asked("/v1/chat/completions", chat_body()).images.size(), 0u);
  encoder_.hold(false);
  EXPECT_EQ(looking.read_reply().status, 200);
  EXPECT_EQ(service_.next_stream()->request.images.size(), 1u);
}

TEST_F(ImagesTest, AClientThatLeavesStopsTheEncoding) {
  encoder_.hold(true);
  HttpClient leaving(port());
  leaving.request("POST", "/v1/chat/completions", openai(openai_part(data_url("rgb.png"))));
  ASSERT_TRUE(encoder_.wait_begun(1));
  leaving.close();
  // The next image's turn comes only when the first has stopped: it is held as well.
  HttpClient other(port());
  other.request("POST", "/v1/chat/completions", openai(openai_part(data_url("grey.png"))));
  EXPECT_TRUE(encoder_.wait_begun(2));
  encoder_.hold(false);
  EXPECT_EQ(other.read_reply().status, 200);
  EXPECT_EQ(image_service_.stats().cancelled, 1u);
  EXPECT_EQ(service_.n_submitted(), 1u);
}

TEST_F(ImagesTest, ATowerThatFailsIsAServersError) {
  encoder_.fails = true;
  EXPECT_EQ(post("/v1/chat/completions", openai(openai_part(data_url("rgb.png")))).status, 500);
  EXPECT_EQ(asked("/v1/chat/completions", chat_body()).images.size(), 0u) << "others go on";
}

TEST_F(ImagesTest, EarlierImagesOfAStoredResponseAreThereAgain) {
  const HttpReply first =
      post("/v1/responses", responses(R"({"type":"input_image","image_url":")" + data_url("rgb.png") + "\"}"));
  ASSERT_EQ(first.status, 200);
  service_.next_stream();
  const std::string id = parse(first.body)["id"];
  const engine::Request second =
      asked("/v1/responses", R"({"previous_response_id":")" + id + R"(","input":"and now?"})");
  EXPECT_EQ(second.images.size(), 1u);
  EXPECT_EQ(encoder_.n_encoded, 1);
}

TEST_F(ImagesTest, ClientsAreToldOfVision) {
  EXPECT_NE(post("/api/show", R"({"model":"tiny"})").body.find("\"vision\""), std::string::npos);
  EXPECT_NE(get("/api/tags").body.find("\"vision\""), std::string::npos);
  EXPECT_NE(get("/metrics").body.find("tempo9_images_encoded_total 0"), std::string::npos);
  images_ = nullptr;
  restart({});
  EXPECT_EQ(post("/api/show", R"({"model":"tiny"})").body.find("\"vision\""), std::string::npos);
  EXPECT_EQ(get("/metrics").body.find("tempo9_images"), std::string::npos);
}

TEST_F(ImagesTest, WithoutATowerEachDialectRefusesByName) {
  images_ = nullptr;
  restart({});
  constexpr std::string_view kText = "image input needs a vision tower; start the server with --tower";
  const std::string url = data_url("rgb.png");
  refused("/v1/chat/completions", openai(openai_part(url)), kText);
  refused("/v1/chat/completions", openai(openai_part("https://example.com/x.png")), kText);
  refused("/v1/responses", responses(R"({"type":"input_image","image_url":")" + url + "\"}"), kText);
  refused("/v1/messages", anthropic(anthropic_block("AAAA")), kText);
  refused("/api/chat", ollama("\"AAAA\"", "x"), kText);
  refused("/api/generate", R"({"prompt":"x","images":["AAAA"]})", kText);
}

}  // namespace
}  // namespace tempo9::testing
