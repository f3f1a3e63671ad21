// What the Ollama routes say of the model.
#include "server/ollama_support.h"

namespace tempo9::testing {
namespace {

class OllamaModelsTest : public OllamaTest {
 protected:
  void SetUp() override {
    model_card_ = {.name = "tiny",
                   .created_s = 1767225600,
                   .context_length = 4096,
                   .size_bytes = 5'027'783'872,
                   .digest = std::string(64, 'a'),
                   .family = "qwen3",
                   .n_parameters = 8'190'735'360,
                   .n_layers = 36,
                   .embedding_length = 4096,
                   .quantization = "Q4_K_S",
                   .license = "Apache-2.0",
                   .chat_template = "{{ x }}",
                   .metadata = [](bool with_lists) -> Json {
                     return {{"general.file_type", 14},
                             {"qwen3.block_count", 36},
                             {"tokenizer.ggml.tokens", with_lists ? Json({"a", "b"}) : Json()}};
                   }};
    OllamaTest::SetUp();
  }
};

TEST_F(OllamaModelsTest, VersionParsesAsOneAndClaimsNoRelease) {
  EXPECT_EQ(get("/api/version").body, R"({"version":"0.12.0-tempo9"})");
  for (const char* path : {"/api/version", "/api/tags", "/api/ps"}) {
    HttpClient client(port());
    client.request("HEAD", path);
    EXPECT_EQ(client.read_reply(true).status, 200) << path;
  }
}

TEST_F(OllamaModelsTest, TagsHaveTheOneModel) {
  const Json models = parse(get("/api/tags").body)["models"];
  ASSERT_EQ(models.size(), 1u);
  const Json& model = models[0];
  EXPECT_EQ(model["name"], "tiny");
  EXPECT_EQ(model["model"], "tiny");
  EXPECT_EQ(model["modified_at"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(model["size"], 5'027'783'872);
  EXPECT_EQ(model["digest"], std::string(64, 'a'));
  EXPECT_EQ(model["details"]["family"], "qwen3");
  EXPECT_EQ(model["details"]["families"], Json({"qwen3"}));
  EXPECT_EQ(model["details"]["parameter_size"], "8.2B");
  EXPECT_EQ(model["details"]["quantization_level"], "Q4_K_S");
  EXPECT_EQ(model["capabilities"], Json({"completion", "tools", "thinking"}));
}

TEST_F(OllamaModelsTest, TheRunningModelNeverExpires) {
  const Json model = parse(get("/api/ps").body)["models"][0];
  EXPECT_EQ(model["expires_at"], "2318-01-01T00:00:00Z");
  EXPECT_EQ(model["size_vram"], model["size"]);
  EXPECT_EQ(model["context_length"], 4096);
  EXPECT_FALSE(model.contains("modified_at"));
}

TEST_F(OllamaModelsTest, ShowTakesEitherNameAndAnswersForAny) {
  for (const char* body : {R"({"model":"tiny"})", R"({"name":"other:latest","options":{},"system":"x"})", "{}"}) {
    const HttpReply reply = post("/api/show", body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json shown = parse(reply.body);
    const Json& info = shown["model_info"];
    EXPECT_EQ(info["general.architecture"], "qwen3");
    EXPECT_EQ(info["general.parameter_count"], 8'190'735'360);
    EXPECT_EQ(info["general.file_type"], 14);
    EXPECT_EQ(info["qwen3.context_length"], 4096);
    EXPECT_EQ(info["qwen3.embedding_length"], 4096);
    EXPECT_EQ(info["qwen3.block_count"], 36);
    EXPECT_TRUE(info["tokenizer.ggml.tokens"].is_null());
    EXPECT_EQ(shown["template"], "{{ x }}");
    EXPECT_EQ(shown["license"], "Apache-2.0");
    EXPECT_TRUE(shown["modelfile"].get<std::string>().starts_with("FROM tiny\n"));
    EXPECT_EQ(shown["parameters"], "stop                           \"</s>\"\nnum_ctx                        4096");
  }
  EXPECT_EQ(parse(post("/api/show", R"({"verbose":true})").body)["model_info"]["tokenizer.ggml.tokens"],
            Json({"a", "b"}));
}

TEST_F(OllamaModelsTest, CapabilitiesFollowTheTemplate) {
  use_template("{# <tool_call> #}");
  EXPECT_EQ(parse(post("/api/show", "{}").body)["capabilities"], Json({"completion", "tools"}));
}

TEST_F(OllamaModelsTest, PullingTheModelThatIsHereSucceeds) {
  const HttpReply reply = post("/api/pull", R"({"model":"tiny:latest"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("Content-Type"), "application/x-ndjson");
  EXPECT_EQ(reply.body, "{\"status\":\"success\"}\n");
  EXPECT_EQ(post("/api/pull", R"({"name":"tiny","stream":false})").status, 200);
  EXPECT_EQ(refusal("/api/pull", R"({"model":"llama3"})", 501), "pull is not supported by this server");
}

TEST_F(OllamaModelsTest, TheStoreIsNotServed) {
  for (const char* name : {"push", "create", "copy", "delete"}) {
    EXPECT_EQ(refusal("/api/" + std::string(name), "{}", 501), std::string(name) + " is not supported by this server");
  }
  EXPECT_EQ(http_request(port(), "DELETE", "/api/delete", "{}").status, 501);
  EXPECT_EQ(http_request(port(), "POST", "/api/blobs/sha256:abc", "xyz").status, 501);
  EXPECT_EQ(refusal("/api/embed", "{}", 501), "embeddings are not supported by this server");
}

}  // namespace
}  // namespace tempo9::testing
