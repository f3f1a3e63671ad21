// The whole way: a projector becomes a tower, and a server with it answers what clients ask about an image.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "cli/process.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "server/http_client.h"
#include "support/data.h"

namespace tempo9::testing {
namespace {

using nlohmann::json;

// The tiny models' vocabulary has ordinary words where real ones have the tokens of images.
void write_model_with_image_tokens(const std::string& from, const std::string& to) {
  const auto file = gguf::File::open(from).value();
  gguf::Writer writer;
  for (const auto& [key, value] : file->metadata().entries()) {
    gguf::MetaValue changed = value;
    if (key == "tokenizer.ggml.tokens") {
      auto& tokens = std::get<std::vector<std::string>>(std::get<gguf::Array>(changed));
      tokens[500] = "<|image_pad|>";
      tokens[502] = "<|vision_start|>";
      tokens[503] = "<|vision_end|>";
    }
    if (key == "tokenizer.ggml.token_type") {
      auto& types = std::get<std::vector<int32_t>>(std::get<gguf::Array>(changed));
      for (const size_t token : {500u, 502u, 503u}) types[token] = 3;  // control
    }
    writer.add(key, std::move(changed));
  }
  for (const gguf::TensorInfo& tensor : file->tensors()) {
    const auto view = file->view(tensor);
    writer.add_tensor(tensor.name, tensor.dtype, {tensor.ne, tensor.ne + tensor.n_dims},
                      {view.data, view.data + view.size_bytes()});
  }
  ASSERT_TRUE(writer.write(to).has_value());
}

class TowerServing : public ::testing::TestWithParam<const char*> {
 protected:
  TowerServing()
      : folder_(std::filesystem::temp_directory_path() / ("tempo9-tower-serving-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TowerServing() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  // Of a golden model; empty when it has no projector here.
  static std::string projector(const std::string& model) { return reference_path("golden/" + model + "/mmproj.gguf"); }
  void export_tower(const std::string& model) {
    Process process({"tower", "export", projector(model), "--out", path(model), "--weights", "f32"});
    process.wait_end();
    ASSERT_EQ(process.exit_code(), 0);
  }
  static json post(uint16_t port, std::string_view route, const json& body) {
    const HttpReply reply = http_request(port, "POST", route, body.dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body, nullptr, false);
  }

  const std::filesystem::path folder_;
};

TEST_P(TowerServing, FourDialectsAnswerAboutAnImage) {
  T9_NEED_DATA(projector(GetParam()));
  ASSERT_NO_FATAL_FAILURE(export_tower(GetParam()));
  ASSERT_NO_FATAL_FAILURE(write_model_with_image_tokens(golden_path(GetParam()) + "/model.gguf", path("seeing.gguf")));
  Process server({"--gguf", path("seeing.gguf"), "--tower", path(GetParam()), "--port", "0", "--max-length", "512"});
  const uint16_t port = server.wait_port();
  ASSERT_NE(port, 0);
  std::ifstream in(reference_path(std::string("golden/") + GetParam() + "/image.png"), std::ios::binary);
  const std::string image = encode_base64(std::string(std::istreambuf_iterator<char>(in), {}));
  const std::string url = "data:image/png;base64," + image;
  const json chat_parts = {{{"type", "image_url"}, {"image_url", {{"url", url}}}},
                           {{"type", "text"}, {"text", "what?"}}};
  const json chat =
      post(port, "/v1/chat/completions",
           {{"temperature", 0}, {"max_tokens", 8}, {"messages", {{{"role", "user"}, {"content", chat_parts}}}}});
  const std::string text = chat["choices"][0]["message"]["content"];
  EXPECT_FALSE(text.empty());
  EXPECT_GT(chat["usage"]["prompt_tokens"], 6);
  const json parts = {{{"type", "input_image"}, {"image_url", url}}, {{"type", "input_text"}, {"text", "what?"}}};
  const json response =
      post(port, "/v1/responses",
           {{"temperature", 0}, {"max_output_tokens", 8}, {"input", {{{"role", "user"}, {"content", parts}}}}});
  EXPECT_EQ(response["output"].back()["content"][0]["text"], text);
  const json blocks = {
      {{"type", "image"}, {"source", {{"type", "base64"}, {"media_type", "image/png"}, {"data", image}}}},
      {{"type", "text"}, {"text", "what?"}}};
  const json message =
      post(port, "/v1/messages",
           {{"temperature", 0}, {"max_tokens", 8}, {"messages", {{{"role", "user"}, {"content", blocks}}}}});
  EXPECT_EQ(message["content"].back()["text"], text);
  const json ollama = post(port, "/api/chat",
                           {{"stream", false},
                            {"options", {{"temperature", 0}, {"num_predict", 8}}},
                            {"messages", {{{"role", "user"}, {"content", "what?"}, {"images", {image}}}}}});
  EXPECT_EQ(ollama["message"]["content"], text);
  const std::string metrics = http_request(port, "GET", "/metrics").body;
  EXPECT_NE(metrics.find("tempo9_images_encoded_total 1\n"), std::string::npos);
  server.send(SIGTERM);
  EXPECT_NE(server.wait_end().find("images   looked at by"), std::string::npos);
  EXPECT_EQ(server.exit_code(), 0);
}

// qwen3vl's rows have further columns for its layers.
TEST_P(TowerServing, AnotherModelsTowerIsRefused) {
  const std::string other = std::string(GetParam()) == "qwen3vl" ? "qwen2vl" : "qwen3vl";
  T9_NEED_DATA(projector(other));
  ASSERT_NO_FATAL_FAILURE(export_tower(other));
  ASSERT_NO_FATAL_FAILURE(write_model_with_image_tokens(golden_path(GetParam()) + "/model.gguf", path("seeing.gguf")));
  Process server({"--gguf", path("seeing.gguf"), "--tower", path(other), "--port", "0"});
  EXPECT_NE(server.wait_end().find("it is another model's tower"), std::string::npos);
  EXPECT_EQ(server.exit_code(), 1);
}

INSTANTIATE_TEST_SUITE_P(Models, TowerServing, ::testing::Values("qwen2vl", "qwen3vl", "qwen35-vl"));

}  // namespace
}  // namespace tempo9::testing
