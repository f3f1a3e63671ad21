// Ids that the models' own tokenizers give for awkward texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/data.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

struct Reference {
  std::string name;
  std::string model;
  std::string cases;
  bool parse_special = true;
  bool normalize = true;
};

void PrintTo(const Reference& reference, std::ostream* out) { *out << reference.name; }

Reference golden(const std::string& name) {
  return {.name = name,
          .model = tempo9::testing::golden_path(name + "/model.gguf"),
          .cases = tempo9::testing::golden_path(name + "/tokenize.json")};
}

// SentencePiece itself made these, and it parses no special tokens.
Reference sentencepiece_golden(const std::string& name) {
  Reference reference = golden(name);
  reference.parse_special = false;
  return reference;
}

// The tiny Qwen tokenizers were made without the family's normaliser.
Reference unnormalized_golden(const std::string& name) {
  Reference reference = golden(name);
  reference.normalize = false;
  return reference;
}

Reference real(const std::string& name) {
  return {.name = name,
          .model = tempo9::testing::reference_path("tokenizers/" + name + ".gguf"),
          .cases = tempo9::testing::reference_path("tokenizers/" + name + ".json")};
}

class ReferenceCases : public ::testing::TestWithParam<Reference> {};

TEST_P(ReferenceCases, GiveTheSameIds) {
  const Reference& reference = GetParam();
  T9_NEED_DATA(reference.model);
  const auto tokenizer = testing::load(reference.model);
  ASSERT_NE(tokenizer, nullptr);
  std::ifstream stream(reference.cases);
  const auto file = nlohmann::json::parse(stream);
  ASSERT_GT(file["cases"].size(), 40u);
  for (const auto& test_case : file["cases"]) {
    const auto text = test_case["text"].get<std::string>();
    EXPECT_EQ(
        testing::encode(*tokenizer, text, {.parse_special = reference.parse_special, .normalize = reference.normalize}),
        test_case["ids"].get<testing::Ids>())
        << text.substr(0, 200);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceCases,
                         ::testing::Values(golden("llama"), golden("llama-rope-llama3"),
                                           sentencepiece_golden("mistral-spm"), sentencepiece_golden("gemma3"),
                                           unnormalized_golden("qwen3"), real("llama3_1"), real("qwen3"),
                                           real("llama2_spm")),
                         [](const auto& test) {
                           std::string name =
                               test.param.name + (test.param.model.ends_with("/model.gguf") ? "_tiny" : "");
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tempo9::tokenizer
