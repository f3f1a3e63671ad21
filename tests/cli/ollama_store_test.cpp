// Reading Ollama's store, on stores that the tests make.
#include "cli/ollama_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace tempo9::cli {
namespace {

namespace fs = std::filesystem;

std::string digest_of(char digit) { return "sha256:" + std::string(64, digit); }

// A store in a folder of its own, removed at the end.
class OllamaStore : public ::testing::Test {
 protected:
  OllamaStore() {
    std::string pattern = (fs::temp_directory_path() / "tempo9-ollama-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    fs::create_directories(store() / "manifests");
    fs::create_directories(store() / "blobs");
  }
  ~OllamaStore() override { fs::remove_all(root_); }

  fs::path store() const { return root_ / "models"; }
  fs::path links() const { return root_ / "cache"; }

  void write_manifest(const std::string& path, const std::string& text) const {
    const fs::path file = store() / "manifests" / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  fs::path write_blob(char digit, size_t bytes) const {
    fs::path path = store() / "blobs" / ("sha256-" + std::string(64, digit));
    std::ofstream(path) << std::string(bytes, digit);
    return path;
  }
  static std::string manifest(char digit, size_t bytes, const std::string& more_layers = "") {
    return R"({"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.template","digest":")" +
           digest_of('0') + R"(","size":7},{"mediaType":"application/vnd.ollama.image.model","digest":")" +
           digest_of(digit) + R"(","size":)" + std::to_string(bytes) + "}" + more_layers + "]}";
  }
  // A model with its blob.
  void add(const std::string& path, char digit = 'a', size_t bytes = 100) const {
    write_manifest(path, manifest(digit, bytes));
    write_blob(digit, bytes);
  }

  std::vector<std::string> names() const {
    const auto models = read_ollama_store(store());
    std::vector<std::string> names;
    for (const OllamaModel& model : models.value()) names.push_back(model.name);
    return names;
  }
  // The name of what is found, or the error.
  std::string find(std::string_view name) const {
    const auto model = find_ollama_model(store(), name);
    return model ? model->name : model.error().message();
  }

  fs::path root_;
};

using Names = std::vector<std::string>;

TEST_F(OllamaStore, NamesOfTheLibraryAreShort) {
  add("registry.ollama.ai/library/qwen3/8b");
  add("registry.ollama.ai/library/llama3.2/latest", 'b');
  EXPECT_EQ(names(), (Names{"llama3.2:latest", "qwen3:8b"}));
}

TEST_F(OllamaStore, OtherNamesKeepHostAndNamespace) {
  add("hf.co/unsloth/Qwen3-0.6B-GGUF/Q8_0");
  add("registry.ollama.ai/someone/tiny/latest", 'b');
  EXPECT_EQ(names(), (Names{"hf.co/unsloth/Qwen3-0.6B-GGUF:Q8_0", "registry.ollama.ai/someone/tiny:latest"}));
}

TEST_F(OllamaStore, ABareNameIsTheLatestTag) {
  add("registry.ollama.ai/library/qwen3/latest");
  add("registry.ollama.ai/library/qwen3/8b", 'b');
  EXPECT_EQ(find("qwen3"), "qwen3:latest");
  EXPECT_EQ(find("qwen3:8b"), "qwen3:8b");
}

TEST_F(OllamaStore, TheRegistrysNameMayBeWritten) {
  add("registry.ollama.ai/library/qwen3/8b");
  EXPECT_EQ(find("registry.ollama.ai/library/qwen3:8b"), "qwen3:8b");
  EXPECT_EQ(find("library/qwen3:8b"), "qwen3:8b");
  EXPECT_EQ(find("Qwen3:8B"), "qwen3:8b");
}

TEST_F(OllamaStore, ForeignModelsAnswerToTheirShortNames) {
  add("hf.co/unsloth/Qwen3-0.6B-GGUF/Q8_0");
  const std::string name = "hf.co/unsloth/Qwen3-0.6B-GGUF:Q8_0";
  EXPECT_EQ(find(name), name);
  EXPECT_EQ(find("unsloth/Qwen3-0.6B-GGUF:Q8_0"), name);
  EXPECT_EQ(find("qwen3-0.6b-gguf:q8_0"), name);
}

TEST_F(OllamaStore, AShortNameThatFitsSeveralIsAnErrorWithAll) {
  add("hf.co/one/m/latest");
  add("hf.co/two/m/latest", 'b');
  EXPECT_EQ(find("m"), "--ollama m: could be hf.co/one/m:latest, hf.co/two/m:latest");
}

TEST_F(OllamaStore, TheLibrarysModelWinsOverAForeignOneOfThatName) {
  add("hf.co/one/m/latest");
  add("registry.ollama.ai/library/m/latest", 'b');
  EXPECT_EQ(find("m"), "m:latest");
}

TEST_F(OllamaStore, AHostWithAPortIsNotATag) {
  add("localhost:5000/team/m/latest");
  EXPECT_EQ(find("localhost:5000/team/m"), "localhost:5000/team/m:latest");
}

TEST_F(OllamaStore, AnUnknownNameIsAnErrorWithWhatThereIs) {
  add("registry.ollama.ai/library/qwen3/8b");
  EXPECT_EQ(find("qwen3"), "--ollama qwen3: Ollama has not pulled it; there is qwen3:8b");
}

TEST_F(OllamaStore, AnEmptyStoreSaysHowToFillIt) {
  EXPECT_EQ(names(), Names{});
  EXPECT_NE(find("qwen3").find("'ollama pull qwen3'"), std::string::npos);
}

TEST_F(OllamaStore, NoStoreIsAnErrorThatNamesTheVariable) {
  const auto models = read_ollama_store(root_ / "none");
  ASSERT_FALSE(models);
  EXPECT_EQ(models.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(models.error().message().find("OLLAMA_MODELS"), std::string::npos);
}

TEST_F(OllamaStore, AModelWithoutItsBlobIsLeftOutOfTheTableAndCannotBeServed) {
  write_manifest("registry.ollama.ai/library/half/latest", manifest('c', 100));
  add("registry.ollama.ai/library/whole/latest");
  const std::string table = describe_ollama_models(read_ollama_store(store()).value());
  EXPECT_EQ(table.find("half"), std::string::npos) << table;
  EXPECT_NE(table.find("whole"), std::string::npos) << table;
  EXPECT_NE(find("half").find("its weights are not there"), std::string::npos);
}

TEST_F(OllamaStore, SizeIsTheFilesAndAShortBlobIsTruncated) {
  write_manifest("registry.ollama.ai/library/cut/latest", manifest('d', 3 * (size_t{1} << 30)));
  const fs::path blob = write_blob('d', 0);
  fs::resize_file(blob, 3 * (size_t{1} << 29));
  const auto models = read_ollama_store(store()).value();
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].bytes, 3 * (size_t{1} << 29));
  EXPECT_TRUE(models[0].is_truncated());
  const std::string table = describe_ollama_models(models);
  EXPECT_NE(table.find("1.50 GiB"), std::string::npos) << table;
  EXPECT_NE(table.find("truncated: the manifest says 3.00 GiB"), std::string::npos) << table;
  EXPECT_NE(find("cut").find("truncated"), std::string::npos);
}

TEST_F(OllamaStore, ABlobLongerThanItsManifestSaysIsUsed) {
  write_manifest("registry.ollama.ai/library/long/latest", manifest('e', 10));
  write_blob('e', 100);
  EXPECT_EQ(find("long"), "long:latest");
}

TEST_F(OllamaStore, AProjectorIsReported) {
  const std::string projector =
      R"(,{"mediaType":"application/vnd.ollama.image.projector","digest":")" + digest_of('f') + R"(","size":5})";
  write_manifest("registry.ollama.ai/library/seeing/latest", manifest('a', 100, projector));
  write_blob('a', 100);
  const auto models = read_ollama_store(store()).value();
  ASSERT_EQ(models.size(), 1U);
  EXPECT_TRUE(models[0].has_projector);
  EXPECT_EQ(models[0].projector, fs::path(store()) / "blobs" / ("sha256-" + std::string(64, 'f')));
  EXPECT_NE(describe_ollama_models(models).find("--tower"), std::string::npos);
}

TEST_F(OllamaStore, DamagedManifestsAreLeftOut) {
  const std::map<std::string, std::string> texts = {
      {"empty", ""},
      {"cut", R"({"layers":[{"mediaType":)"},
      {"list", "[]"},
      {"number", "7"},
      {"no-layers", "{}"},
      {"layers-no-list", R"({"layers":{}})"},
      {"layer-no-object", R"({"layers":[7,null,"x"]})"},
      {"no-weights", R"({"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"x"}]})"},
      {"no-digest", R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","size":5}]})"},
      {"digest-no-string", R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":5}]})"},
      {"binary", std::string("\x00\xff\xfe", 3)},
  };
  for (const auto& [name, text] : texts) write_manifest("registry.ollama.ai/library/" + name + "/latest", text);
  write_manifest("registry.ollama.ai/library/huge/latest", std::string(2 << 20, ' ') + manifest('a', 100));
  add("registry.ollama.ai/library/good/latest");
  EXPECT_EQ(names(), Names{"good:latest"});
}

TEST_F(OllamaStore, ADigestThatIsAPathLeadsNowhere) {
  std::ofstream(root_ / "secret") << "x";
  for (const std::string& digest :
       std::vector<std::string>{"sha256:../../secret", "../../secret", "sha256:" + std::string(62, 'a') + "/.",
                                "sha256:" + std::string(64, 'G')}) {
    write_manifest("registry.ollama.ai/library/bad/latest",
                   R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":")" + digest + R"("}]})");
    EXPECT_EQ(names(), Names{}) << digest;
  }
}

TEST_F(OllamaStore, StrayFilesInTheManifestFolderAreLeftOut) {
  add("registry.ollama.ai/library/good/latest");
  write_manifest("registry.ollama.ai/library/good/.DS_Store", "x");
  write_manifest("registry.ollama.ai/README", "x");
  write_manifest("registry.ollama.ai/library/good/deeper/latest", manifest('a', 100));
  fs::create_directory_symlink(store() / "manifests", store() / "manifests" / "registry.ollama.ai" / "loop");
  EXPECT_EQ(names(), Names{"good:latest"});
}

TEST_F(OllamaStore, TheLinkHasTheModelsNameAndFollowsItsBlob) {
  add("registry.ollama.ai/library/qwen3/8b", 'a');
  const auto first = link_ollama_model(find_ollama_model(store(), "qwen3:8b").value(), links());
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->filename(), "qwen3-8b.gguf");
  EXPECT_EQ(fs::read_symlink(*first).filename().string(), "sha256-" + std::string(64, 'a'));

  fs::remove(store() / "blobs" / ("sha256-" + std::string(64, 'a')));
  add("registry.ollama.ai/library/qwen3/8b", 'b');
  const auto second = link_ollama_model(find_ollama_model(store(), "qwen3:8b").value(), links());
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ(*second, *first);
  EXPECT_EQ(fs::read_symlink(*second).filename().string(), "sha256-" + std::string(64, 'b'));
  EXPECT_EQ(std::distance(fs::directory_iterator(links()), fs::directory_iterator()), 1);
}

TEST_F(OllamaStore, ALinkThatCannotBeMadeIsAnError) {
  add("registry.ollama.ai/library/qwen3/8b");
  std::ofstream(root_ / "file") << "x";
  const auto link = link_ollama_model(find_ollama_model(store(), "qwen3:8b").value(), root_ / "file" / "cache");
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code(), ErrorCode::kIo);
}

// Every path below `root` with its size, mode and time of change.
std::vector<std::string> snapshot(const fs::path& root) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    struct stat status {};
    lstat(entry.path().c_str(), &status);
    lines.push_back(entry.path().string() + " " + std::to_string(status.st_size) + " " +
                    std::to_string(status.st_mode) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
                    std::to_string(status.st_mtim.tv_nsec) + " " + std::to_string(status.st_ctim.tv_sec) + "." +
                    std::to_string(status.st_ctim.tv_nsec));
  }
  std::ranges::sort(lines);
  return lines;
}

TEST_F(OllamaStore, NothingInItIsTouched) {
  add("registry.ollama.ai/library/qwen3/8b");
  write_manifest("registry.ollama.ai/library/half/latest", manifest('c', 100));
  const auto before = snapshot(store());
  find("half");
  ASSERT_TRUE(link_ollama_model(find_ollama_model(store(), "qwen3:8b").value(), links()));
  describe_ollama_models(read_ollama_store(store()).value());
  EXPECT_EQ(snapshot(store()), before);
}

TEST_F(OllamaStore, AStoreThatCannotBeWrittenWorks) {
  add("registry.ollama.ai/library/qwen3/8b");
  for (const auto& entry : fs::recursive_directory_iterator(store())) {
    fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::remove);
  }
  EXPECT_EQ(find("qwen3:8b"), "qwen3:8b");
  for (const auto& entry : fs::recursive_directory_iterator(store())) {
    fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
  }
}

TEST_F(OllamaStore, TheTableLinesUp) {
  add("registry.ollama.ai/library/qwen3/8b");
  add("hf.co/unsloth/Qwen3-0.6B-GGUF/Q8_0", 'b');
  const std::string blobs = (store() / "blobs").string();
  EXPECT_EQ(describe_ollama_models(read_ollama_store(store()).value()),
            "NAME                                      SIZE  BLOB\n"
            "hf.co/unsloth/Qwen3-0.6B-GGUF:Q8_0    0.00 GiB  " +
                blobs + "/sha256-" + std::string(64, 'b') + "\n" + "qwen3:8b                              0.00 GiB  " +
                blobs + "/sha256-" + std::string(64, 'a') + "\n");
}

}  // namespace
}  // namespace tempo9::cli
