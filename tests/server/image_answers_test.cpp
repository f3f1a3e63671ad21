// Small vision models behind the server, with made-up image rows: what clients are answered.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <array>
#include <fstream>
#include <iterator>

#include "backends/cpu/cpu.h"
#include "base/base64.h"
#include "engine/engine.h"
#include "models/model.h"
#include "server/byte_tokenizer.h"
#include "server/http_client.h"
#include "server/server.h"
#include "support/data.h"
#include "vision/fake_encoder.h"

namespace tempo9::testing {
namespace {

using chat::Json;

std::string base64_of(const std::string& name) {
  std::ifstream in(golden_path("images/" + name), std::ios::binary);
  return encode_base64(std::string(std::istreambuf_iterator<char>(in), {}));
}

class ImageAnswers : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    auto file = gguf::File::open(golden_path(GetParam()) + "/model.gguf");
    ASSERT_TRUE(file) << file.error().message();
    auto model = models::load_model(std::shared_ptr<const gguf::File>(*std::move(file)));
    ASSERT_TRUE(model) << model.error().message();
    model_ = *std::move(model);
    backend_ = backends::make_cpu_backend({.n_threads = 2, .isa = {}}).value();
    auto engine =
        engine::Engine::create(*backend_, model_, tokenizer_,
                               {.context_length = 1024, .max_batch = 4, .kv_type = backend_->kv_types().front()});
    ASSERT_TRUE(engine) << engine.error().message();
    engine_ = *std::move(engine);
    encoder_ = std::make_unique<FakeEncoder>(models::embedding_cols(model_.program));
    images_ = std::make_unique<vision::ImageService>(*encoder_, vision::ImageServiceOptions{});
    input_.emplace(server::ImageInput{*images_, *chat::find_image_markup(tokenizer_)});
    auto started = server::Server::start({.engine = *engine_,
                                          .tokenizer = tokenizer_,
                                          .chat_format = chat_format_,
                                          .model = {.name = "tiny", .context_length = 1024},
                                          .sampling_defaults = {},
                                          .images = &*input_},
                                         {.port = 0, .limits = {}});
    ASSERT_TRUE(started) << started.error().message();
    server_ = *std::move(started);
  }
  void TearDown() override {
    if (engine_) engine_->stop();
    if (server_) server_->stop(2000);
  }

  Json post(std::string_view path, const std::string& body) {
    const HttpReply reply = http_request(server_->port(), "POST", path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body, nullptr, false);
  }
  static std::string part(const std::string& image) {
    return R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" + image + "\"}}";
  }
  static std::string chat_body(const std::string& content, const std::string& history = "") {
    return R"({"temperature":0,"max_tokens":8,"messages":[)" + history + R"({"role":"user","content":[)" + content +
           "]}]}";
  }
  static std::string text_of(const Json& chat) { return chat["choices"][0]["message"]["content"]; }
  static int64_t cached(const Json& chat) { return chat["usage"]["prompt_tokens_details"]["cached_tokens"]; }

  ByteTokenizer tokenizer_;
  chat::ChatFormat chat_format_ = chat::ChatFormat::from_source(
      "{% for m in messages %}<turn>{{ m.role }}:{{ m.content }}{% endfor %}<turn>assistant:", "<s>", "</s>");
  models::Model model_;
  std::unique_ptr<backends::Backend> backend_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<FakeEncoder> encoder_;
  std::unique_ptr<vision::ImageService> images_;
  std::optional<server::ImageInput> input_;
  std::unique_ptr<server::Server> server_;
};

TEST_P(ImageAnswers, FourDialectsAnswerAlike) {
  const std::string image = base64_of("rgb.png");
  const Json chat = post("/v1/chat/completions", chat_body(part(image) + R"(,{"type":"text","text":"what?"})"));
  const std::string text = text_of(chat);
  EXPECT_FALSE(text.empty());
  const Json responses =
      post("/v1/responses", R"({"temperature":0,"max_output_tokens":8,"input":[{"role":"user","content":[
        {"type":"input_image","image_url":"data:image/png;base64,)" +
                                image + R"("},{"type":"input_text","text":"what?"}]}]})");
  EXPECT_EQ(responses["output"].back()["content"][0]["text"], text);
  const Json messages = post("/v1/messages", R"({"temperature":0,"max_tokens":8,"messages":[{"role":"user","content":[
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":")" +
                                                 image + R"("}},{"type":"text","text":"what?"}]}]})");
  EXPECT_EQ(messages["content"].back()["text"], text);
  const Json ollama = post("/api/chat", R"({"stream":false,"options":{"temperature":0,"num_predict":8},"messages":[
        {"role":"user","content":"what?","images":[")" +
                                            image + "\"]}]}");
  EXPECT_EQ(ollama["message"]["content"], text);
  EXPECT_EQ(chat["usage"]["prompt_tokens"], 1 + 1 + 5 + 14 + 5 + 1 + 10) << "12 rows between their marks";
  EXPECT_EQ(
      messages["usage"]["input_tokens"].get<int64_t>() + messages["usage"]["cache_read_input_tokens"].get<int64_t>(),
      chat["usage"]["prompt_tokens"]);
  EXPECT_EQ(encoder_->n_encoded, 1);
}

// Field report H01, over HTTP.
TEST_P(ImageAnswers, AnotherImageIsAnotherQuestion) {
  const auto ask = [&](const char* name) {
    return post("/v1/chat/completions",
                chat_body(part(base64_of(name)) + R"(,{"type":"text","text":"which colour?"})"));
  };
  const Json first = ask("rgb.png"), other = ask("grey.png"), again = ask("rgb.png");
  EXPECT_LE(cached(other), 8);
  EXPECT_GT(cached(again), 16);
  EXPECT_EQ(text_of(again), text_of(first));
}

TEST_P(ImageAnswers, ASecondTurnGoesOnFromTheFirst) {
  const std::string first = part(base64_of("rgb.png")) + R"(,{"type":"text","text":"what is on the first picture?"})";
  const Json one = post("/v1/chat/completions", chat_body(first));
  const std::string history =
      R"({"role":"user","content":[)" + first + "]},{\"role\":\"assistant\",\"content\":\"a tree\"},";
  const Json two = post("/v1/chat/completions", chat_body(part(base64_of("turned-6.png")), history));
  const int64_t shared = one["usage"]["prompt_tokens"];
  EXPECT_GE(cached(two), shared - 32) << "less than a page is read again";
  EXPECT_EQ(encoder_->n_encoded, 2);
  EXPECT_EQ(text_of(post("/v1/chat/completions", chat_body(part(base64_of("turned-6.png")), history))), text_of(two));
}

// Field report H03: turns with and without an image take turns; then the first one is edited.
TEST_P(ImageAnswers, AlternatingTurnsAndAnEditOfTheFirst) {
  const auto user = [](const std::string& content) { return R"({"role":"user","content":[)" + content + "]}"; };
  const auto text = [](const std::string& words) { return R"({"type":"text","text":")" + words + "\"}"; };
  constexpr std::array<const char*, 3> kImages = {"rgb.png", "grey.png", "turned-6.png"};
  std::string history;
  std::vector<std::string> answers;
  for (size_t turn = 0; turn < 12; ++turn) {
    const std::string content = turn % 2 == 0 ? text("turn " + std::to_string(turn))
                                              : part(base64_of(kImages[turn / 2 % 3])) + "," + text("and this?");
    const Json answer = post("/v1/chat/completions", chat_body(content, history));
    EXPECT_GE(cached(answer), turn > 1 ? 1 : 0) << turn;
    answers.push_back(text_of(answer));
    history += user(content) + R"(,{"role":"assistant","content":"ok"},)";
  }
  EXPECT_EQ(encoder_->n_encoded, 3);
  const std::string other = user(text("another beginning")) + R"(,{"role":"assistant","content":"ok"},)" +
                            history.substr(history.find("ok\"},") + 5);
  const Json first = post("/v1/chat/completions", chat_body(text("last"), other));
  EXPECT_LE(cached(first), 8) << "nothing behind the edit is taken";
  EXPECT_EQ(text_of(post("/v1/chat/completions", chat_body(text("last"), other))), text_of(first));
}

INSTANTIATE_TEST_SUITE_P(Models, ImageAnswers, ::testing::Values("qwen2vl", "qwen3vl", "qwen35-vl"));

}  // namespace
}  // namespace tempo9::testing
