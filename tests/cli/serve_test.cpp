// The server as a process: flags, exit codes, start, signals.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "cli/process.h"
#include "server/http_client.h"
#include "support/data.h"

namespace tempo9::testing {
namespace {

std::string golden_model() { return testing::golden_path("llama/model.gguf"); }

struct BadUse {
  std::vector<std::string> arguments;
  int exit_code;
  const char* message;
};

TEST(Serve, SaysInOneLineWhatIsWrongAndTheWayOut) {
  const std::string folder = std::filesystem::temp_directory_path() / ("tempo9-serve-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string empty = folder + "/empty.gguf";
  std::ofstream(empty).close();
  setenv("OLLAMA_MODELS", (folder + "/none").c_str(), 1);
  setenv("XDG_CACHE_HOME", (folder + "/cache").c_str(), 1);  // a graph of an older build would be a line more
  for (const BadUse& use : std::vector<BadUse>{
           {{}, 2, "no model given; try 'tempo9 --gguf FILE'"},
           {{"--prot", "1", golden_model()}, 2, "unknown flag --prot; did you mean --port?"},
           {{"docter"}, 2, "docter: no such file; did you mean 'tempo9 doctor'?"},
           {{"--something-else"}, 2, "unknown flag --something-else"},
           {{golden_model(), "second"}, 2, "unexpected argument 'second'"},
           {{"--port", "70000", golden_model()}, 2, "--port"},
           {{"--max-batch", "0", golden_model()}, 2, "--max-batch"},
           {{"--backend", "gpu", golden_model()}, 2, "--backend"},
           {{"--ollama", "qwen3", "--gguf", golden_model()}, 2, "--gguf and --ollama name two models"},
           {{"--ollama", "qwen3"}, 1, "no Ollama store is there; OLLAMA_MODELS can name another place"},
           {{"--list-ollama"}, 1, "no Ollama store is there"},
           {{"--speculation-k", "17", golden_model()}, 2, "--speculation-k: 17 is neither auto nor from 0 to 16"},
           {{"--speculation-k", "all", golden_model()}, 2, "--speculation-k: all is neither auto nor from 0 to 16"},
           {{"--gguf", folder + "/none.gguf"}, 1, "none.gguf"},
           {{folder}, 1, "is a directory"},
           {{empty}, 1, "empty.gguf"},
           {{"--isa", "mmx", golden_model()}, 1, "mmx"},
           {{"--tower", folder, golden_model()}, 1, "takes no images: its vocabulary has no tokens for them"},
       }) {
    Process process(use.arguments);
    const std::string text = process.wait_end();
    EXPECT_EQ(process.exit_code(), use.exit_code) << text;
    EXPECT_TRUE(text.starts_with("tempo9: error: ")) << text;
    EXPECT_NE(text.find(use.message), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
  std::filesystem::remove_all(folder);
}

// A graph in the cache that other code has made is a line in the log once a model is loaded.
TEST(Serve, ABadFlagIsToldBeforeAnythingIsLoaded) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tempo9-stale-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "tempo9/graph");
  std::ofstream(folder / "tempo9/graph/model.gguf.graph") << "of another version";
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  Process process({"--isa", "mmx", golden_model()});
  const std::string text = process.wait_end();
  EXPECT_EQ(process.exit_code(), 1);
  EXPECT_TRUE(text.starts_with("tempo9: error: no such instruction set: 'mmx'")) << text;
  std::filesystem::remove_all(folder);
}

TEST(Serve, VariablesAreCheckedBeforeLoadingAndTheSummarySaysWhereTheDiskCacheIs) {
  struct Case {
    const char* name;
    const char* value;
    const char* said;
  };
  for (const Case& c :
       {Case{"AS_KV_OFFLOAD_GB", "much", "AS_KV_OFFLOAD_GB is 'much'"},
        Case{"AS_KV_OFFLOAD_GB", "0", "AS_KV_OFFLOAD_GB is '0'"}, Case{"AS_KV_OFFLOAD", "no", "AS_KV_OFFLOAD is 'no'"},
        Case{"AS_SPEC_MIN_ACCEPT", "1.5", "AS_SPEC_MIN_ACCEPT is '1.5'"}}) {
    setenv(c.name, c.value, 1);
    Process process({golden_model()});
    EXPECT_NE(process.wait_end().find(c.said), std::string::npos);
    EXPECT_EQ(process.exit_code(), 2);
    unsetenv(c.name);
  }
  for (const char* on : {"0", "1"}) {
    setenv("AS_KV_OFFLOAD", on, 1);
    Process process({golden_model(), "--port", "0", "--max-length", "64", "--memory", "64M"});
    ASSERT_NE(process.wait_port(), 0);
    process.send(SIGTERM);
    const std::string text = process.wait_end();
    EXPECT_EQ(text.find("tempo9/kv") != std::string::npos, *on == '1') << text;
    EXPECT_NE(text.find("up to 61 MiB"), std::string::npos) << text;
    unsetenv("AS_KV_OFFLOAD");
  }
}

TEST(Serve, ABudgetWithoutRoomIsSaidWithWhatWouldDo) {
  Process process({golden_model(), "--port", "0", "--memory", "100K"});
  EXPECT_NE(process.wait_end().find("a memory budget of 0 MB is too small: "), std::string::npos);
  EXPECT_EQ(process.exit_code(), 1);
}

TEST(Serve, StartsAnswersAndStopsOnASignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Process process({golden_model(), "--port", "0", "--name", "golden", "--max-length", "64", "--threads", "1"});
    const uint16_t port = process.wait_port();
    ASSERT_NE(port, 0) << process.wait_end();
    EXPECT_EQ(http_request(port, "GET", "/health").status, 200);
    EXPECT_NE(http_request(port, "GET", "/v1/models").body.find(R"("id":"golden")"), std::string::npos);
    HttpClient idle(port);
    process.send(signal);
    EXPECT_NE(process.wait_end().find("stopping"), std::string::npos);
    EXPECT_EQ(process.exit_code(), 0);
  }
}

// A request for an answer of so many characters at least, streamed.
std::string long_request(int n_characters) {
  return R"({"stream":true,"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",)"
         R"("json_schema":{"name":"long","schema":{"type":"object","required":["t"],)"
         R"("properties":{"t":{"type":"string","minLength":)" +
         std::to_string(n_characters) + "}}}}}}";
}

TEST(Serve, TheFirstSignalLetsRunningAnswersEndAndTheSecondDoesNotWait) {
  const std::vector<std::string> arguments = {golden_model(), "--port", "0", "--max-length", "4096", "--threads", "1"};
  Process drained(arguments);
  const uint16_t port = drained.wait_port();
  ASSERT_NE(port, 0) << drained.wait_end();
  HttpClient client(port);
  client.request("POST", "/v1/chat/completions", long_request(200));
  EXPECT_EQ(client.read_head().status, 200);
  drained.send(SIGTERM);
  std::string answer;
  while (const auto chunk = client.read_chunk()) answer += *chunk;
  EXPECT_NE(answer.find("\"finish_reason\":\""), std::string::npos) << answer;
  EXPECT_NE(answer.find("[DONE]"), std::string::npos) << answer;
  drained.wait_end();
  EXPECT_EQ(drained.exit_code(), 0);

  Process hurried(arguments);
  HttpClient left(hurried.wait_port());
  left.request("POST", "/v1/chat/completions", long_request(20000));
  EXPECT_EQ(left.read_head().status, 200);
  hurried.send(SIGTERM);
  hurried.wait_text("stopping");
  hurried.send(SIGTERM);
  hurried.wait_end();
  EXPECT_EQ(hurried.exit_code(), 128 + SIGTERM);
}

TEST(Serve, AModelOfOllamasStoreHasItsNameAndIsReadThroughALink) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("tempo9-store-" + std::to_string(getpid()));
  const fs::path library = folder / "manifests/registry.ollama.ai/library/tiny";
  fs::create_directories(library);
  fs::create_directories(folder / "blobs");
  const std::string digest(64, '5');
  fs::copy_file(golden_model(), folder / "blobs" / ("sha256-" + digest));
  std::ofstream(library / "latest")
      << R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:)" << digest
      << R"(","size":10},{"mediaType":"application/vnd.ollama.image.projector","digest":"sha256:)"
      << std::string(64, '6') << R"("}]})";
  setenv("OLLAMA_MODELS", folder.c_str(), 1);
  Process process({"--ollama", "tiny", "--port", "0", "--threads", "1"});
  const uint16_t port = process.wait_port();
  ASSERT_NE(port, 0) << process.wait_end();
  EXPECT_NE(http_request(port, "GET", "/v1/models").body.find(R"("id":"tiny:latest")"), std::string::npos);
  const fs::path link = fs::path(std::getenv("XDG_CACHE_HOME")) / "tempo9/ollama/tiny-latest.gguf";
  EXPECT_EQ(fs::read_symlink(link), folder / "blobs" / ("sha256-" + digest));
  EXPECT_TRUE(fs::exists(link.parent_path().parent_path() / "graph/tiny-latest.gguf.graph"));
  process.send(SIGTERM);
  const std::string log = process.wait_end();
  EXPECT_NE(log.find("projector=" + (folder / "blobs" / ("sha256-" + std::string(64, '6'))).string()),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("tiny:latest can look at images; tempo9 needs --tower"), std::string::npos) << log;
  fs::remove_all(folder);
}

TEST(Serve, APortInUseIsAnErrorWithItsNumber) {
  Process first({golden_model(), "--port", "0"});
  const uint16_t port = first.wait_port();
  ASSERT_NE(port, 0) << first.wait_end();
  Process second({golden_model(), "--port", std::to_string(port)});
  EXPECT_NE(second.wait_end().find("port " + std::to_string(port) + " is in use"), std::string::npos);
  EXPECT_EQ(second.exit_code(), 1);
}

}  // namespace
}  // namespace tempo9::testing
