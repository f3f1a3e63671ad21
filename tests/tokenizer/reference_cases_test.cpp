// Ids that the models' own tokenizers give for awkward texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/data.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

namespace fs = std::filesystem;

struct Reference {
  std::string name;
  std::string model;
  std::string cases;
};

void PrintTo(const Reference& reference, std::ostream* out) { *out << reference.name; }

// NAME/tokenize.json beside NAME/model.gguf, and NAME.json beside NAME.gguf.
void add_references(const fs::path& folder, const std::string& prefix, std::vector<Reference>& references) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const bool is_folder = entry.is_directory();
    const fs::path cases = is_folder ? entry.path() / "tokenize.json" : entry.path();
    const fs::path model = is_folder ? entry.path() / "model.gguf" : fs::path(cases).replace_extension(".gguf");
    if (cases.extension() != ".json" || !fs::exists(cases) || !fs::exists(model)) continue;
    std::string name = prefix + "_" + entry.path().stem().string();
    std::ranges::replace(name, '-', '_');
    references.push_back({name, model.string(), cases.string()});
  }
}

// Those of the repository, and those of the reference data where that is present.
std::vector<Reference> all_references() {
  using tempo9::testing::golden_path, tempo9::testing::reference_path;
  std::vector<Reference> references;
  add_references(golden_path(""), "golden", references);
  add_references(golden_path("tokenizers"), "golden_tokenizers", references);
  add_references(reference_path("golden"), "reference", references);
  add_references(reference_path("tokenizers"), "reference_tokenizers", references);
  std::ranges::sort(references, {}, &Reference::name);
  return references;
}

class ReferenceCases : public ::testing::TestWithParam<Reference> {};

// The files say whether special tokens in the texts were parsed, and what normalised them: the tiny models were made
// without the normaliser of their families.
TEST_P(ReferenceCases, GiveTheSameIds) {
  const auto tokenizer = testing::load(GetParam().model);
  ASSERT_NE(tokenizer, nullptr);
  std::ifstream stream(GetParam().cases);
  const auto file = nlohmann::json::parse(stream);
  const bool parses_special = file["note"].get<std::string>().find("are parsed") != std::string::npos;
  const bool normalizes = file.contains("normalizer") && !file["normalizer"].is_null();
  ASSERT_GT(file["cases"].size(), 40u);
  for (const auto& test_case : file["cases"]) {
    const auto text = test_case["text"].get<std::string>();
    EXPECT_EQ(testing::encode(*tokenizer, text, {.parse_special = parses_special, .normalize = normalizes}),
              test_case["ids"].get<testing::Ids>())
        << text.substr(0, 200);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceCases, ::testing::ValuesIn(all_references()),
                         [](const auto& test) { return test.param.name; });

TEST(ReferenceFiles, CoverEveryKindOfTokenizer) {
  std::set<std::string> kinds;
  for (const Reference& reference : all_references()) {
    if (reference.name.starts_with("golden_")) kinds.insert(testing::load(reference.model)->description());
  }
  for (const char* kind :
       {"llama", "gemma4", "gpt2/llama-bpe", "gpt2/qwen2", "gpt2/qwen35", "gpt2/tekken", "gpt2/gpt-4o"}) {
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  }
}

// The real vocabularies are too large for the repository.
TEST(ReferenceFiles, AreThere) { T9_NEED_DATA(tempo9::testing::reference_path("tokenizers")); }

}  // namespace
}  // namespace tempo9::tokenizer
