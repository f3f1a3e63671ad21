// The tokenizer of a real model file.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/data.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = tempo9::testing::model_path(tempo9::testing::kSmolLm2);
    T9_NEED_DATA(path);
    tokenizer_ = testing::load(path);
    ASSERT_NE(tokenizer_, nullptr);
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(SmolLm2, HasTheIdsOfTheOriginalTokenizer) {
  std::ifstream stream(tempo9::testing::golden_path("smollm2/tokenize.json"));
  for (const auto& test_case : nlohmann::json::parse(stream)["cases"]) {
    EXPECT_EQ(testing::encode(*tokenizer_, test_case["text"].get<std::string>()), test_case["ids"].get<testing::Ids>());
  }
}

TEST_F(SmolLm2, KnowsItsSpecialTokens) {
  EXPECT_EQ(tokenizer_->description(), "gpt2/smollm");
  EXPECT_EQ(tokenizer_->bos(), 1);
  EXPECT_EQ(tokenizer_->eos(), 2);
  EXPECT_FALSE(tokenizer_->adds_bos());
  EXPECT_TRUE(tokenizer_->is_end_of_generation(2));
  EXPECT_FALSE(tokenizer_->is_end_of_generation(1));
  const testing::Ids ids = testing::encode(*tokenizer_, "<|im_start|>user\nHi<|im_end|>", {.parse_special = true});
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(ids.back(), 2);
}

// Its unknown token is <|endoftext|>, and some control characters have no token.
TEST_F(SmolLm2, NoTextProducesAControlToken) {
  std::string text = "\U00050000";
  for (char c = 0; c < 0x20; ++c) text += c;
  for (const int32_t id : testing::encode(*tokenizer_, text)) EXPECT_NE(tokenizer_->type(id), TokenType::kControl);
}

}  // namespace
}  // namespace tempo9::tokenizer
