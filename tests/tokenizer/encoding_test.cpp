// Properties of encode and decode that hold for every vocabulary.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/utf8.h"
#include "support/data.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

using testing::Ids;

class EveryVocabulary : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tokenizer_ = testing::load(GetParam());
    ASSERT_NE(tokenizer_, nullptr);
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(EveryVocabulary, DecodeReversesEncode) {
  std::mt19937 random(7);
  const bool has_space_marks = !tokenizer_->description().starts_with("gpt2");
  for (int i = 0; i < 500; ++i) {
    const std::string text = testing::random_text(random, testing::units_of_all_classes(), random() % 40);
    if (has_space_marks && text.find("\u2581") != std::string::npos) continue;  // decodes as a space
    const Ids ids = testing::encode(*tokenizer_, text, {.normalize = false});
    ASSERT_EQ(tokenizer_->decode(ids), text);
    for (const int32_t id : ids) {
      ASSERT_TRUE(id >= 0 && id < tokenizer_->n_tokens());
      ASSERT_NE(tokenizer_->type(id), TokenType::kControl);
    }
  }
}

TEST_P(EveryVocabulary, IllFormedTextIsReadAsReplacementCharacters) {
  std::mt19937 random(8);
  const std::vector<std::string> units = {
      "\xFF", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80",
      "a",    " ",    "é",        "<|im_end|>",   "</s>"};
  for (const std::string& unit : units) {
    EXPECT_EQ(testing::encode(*tokenizer_, unit), testing::encode(*tokenizer_, sanitize_utf8(unit)));
  }
  for (int i = 0; i < 1000; ++i) {
    const std::string text = testing::random_text(random, units, random() % 8);
    const EncodeOptions options{.parse_special = i % 2 == 0};
    ASSERT_EQ(testing::encode(*tokenizer_, text, options), testing::encode(*tokenizer_, sanitize_utf8(text), options));
  }
}

TEST_P(EveryVocabulary, ThreadsGiveTheSameIds) {
  std::mt19937 random(9);
  const std::string text = testing::random_text(random, testing::units_of_all_classes(), 2000);
  const Ids expected = testing::encode(*tokenizer_, text);
  std::vector<Ids> ids(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& mine : ids) threads.emplace_back([&] { mine = testing::encode(*tokenizer_, text); });
  }
  for (const Ids& each : ids) EXPECT_EQ(each, expected);
}

TEST_P(EveryVocabulary, TooManyTokensAreCountedExactly) {
  std::mt19937 random(10);
  const std::string text = testing::random_text(random, testing::units_of_all_classes(), 300) + "<|im_end|></s>";
  const EncodeOptions parse{.parse_special = true};
  const auto n = static_cast<int64_t>(testing::encode(*tokenizer_, text, parse).size());
  EXPECT_TRUE(tokenizer_->encode(text, {.parse_special = true, .max_tokens = n}));
  const auto refused = tokenizer_->encode(text, {.parse_special = true, .max_tokens = n - 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kOutOfCapacity);
  ASSERT_TRUE(refused.error().overflow());
  EXPECT_EQ(refused.error().overflow()->n_tokens, n);
  EXPECT_EQ(refused.error().overflow()->limit, n - 1);
}

TEST_P(EveryVocabulary, CancellationEndsAnEncoding) {
  for (const char* unit : {"a", "a ", "</s>"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    int n_asked = 0;
    const auto cancelled =
        tokenizer_->encode(text, {.parse_special = true, .is_cancelled = [&] { return ++n_asked > 0; }});
    ASSERT_FALSE(cancelled) << unit;
    EXPECT_EQ(cancelled.error().code(), ErrorCode::kCancelled);
    EXPECT_EQ(n_asked, 1);
  }
}

// A token may be a part of a character. What has been written so far is always whole, and in the end it is what decode
// gives.
TEST_P(EveryVocabulary, StreamsNeverHoldHalfACharacter) {
  std::mt19937 random(12);
  for (int i = 0; i < 200; ++i) {
    Ids ids = testing::encode(*tokenizer_, testing::random_text(random, testing::units_of_all_classes(), 30));
    // Cut anywhere, as a limit on tokens does, and with tokens where no text would have them.
    if (!ids.empty() && i % 2 == 1) ids.resize(random() % ids.size());
    if (i % 3 == 0) std::ranges::shuffle(ids, random);
    Utf8Joiner joiner;
    std::string bytes, written;
    for (const int32_t id : ids) {
      bytes += tokenizer_->piece(id);
      joiner.feed(tokenizer_->piece(id), written);
      ASSERT_TRUE(is_valid_utf8(written));
      ASSERT_TRUE(joiner.holds_bytes() ? bytes.size() > 0 : written == sanitize_utf8(bytes));
    }
    joiner.finish(written);
    EXPECT_EQ(written, sanitize_utf8(bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryVocabulary, ::testing::ValuesIn(testing::tiny_vocabulary_files()),
                         testing::name_of_vocabulary);

TEST(Encoding, NormalizesWhereTheFamilyDoes) {
  const auto qwen = testing::load(tempo9::testing::golden_path("qwen3/model.gguf"));
  const auto llama = testing::load(tempo9::testing::golden_path("llama/model.gguf"));
  ASSERT_TRUE(qwen && llama);
  EXPECT_EQ(testing::encode(*qwen, "e\u0301"), testing::encode(*qwen, "é"));
  EXPECT_NE(testing::encode(*qwen, "e\u0301", {.normalize = false}), testing::encode(*qwen, "é"));
  EXPECT_NE(testing::encode(*llama, "e\u0301"), testing::encode(*llama, "é"));
}

}  // namespace
}  // namespace tempo9::tokenizer
