// What create makes of a file's metadata: types, special ids, pieces, refusals.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

using testing::Ids;
using testing::Token;

gguf::Metadata byte_level(const std::vector<Token>& more, const std::vector<std::string>& merges = {}) {
  std::vector<Token> tokens = testing::byte_level_tokens();
  tokens.insert(tokens.end(), more.begin(), more.end());
  return testing::make_metadata("gpt2", tokens, merges, "gpt-2");
}

gguf::Metadata sentencepiece(const std::vector<Token>& more) {
  std::vector<Token> tokens = testing::sentencepiece_tokens();
  tokens.insert(tokens.end(), more.begin(), more.end());
  return testing::make_metadata("llama", tokens);
}

void set(gguf::Metadata& metadata, const std::string& key, gguf::Scalar value) {
  ASSERT_TRUE(metadata.insert("tokenizer.ggml." + key, std::move(value)));
}

Error refusal(const gguf::Metadata& metadata, const CreateOptions& options = {}) {
  const auto tokenizer = Tokenizer::create(metadata, options);
  return tokenizer ? Error(ErrorCode::kInternal, "it was accepted") : tokenizer.error();
}

TEST(Vocabulary, AFileWithoutAPreTokenizerNeedsOneNamed) {
  const gguf::Metadata metadata = testing::make_metadata("gpt2", testing::byte_level_tokens());
  EXPECT_EQ(refusal(metadata).code(), ErrorCode::kInvalidInput);
  const auto tokenizer = testing::create(metadata, {.pre = "qwen2"});
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->description(), "gpt2/qwen2");
}

TEST(Vocabulary, RefusesMetadataThatIsMissingOrContradictory) {
  EXPECT_EQ(refusal(gguf::Metadata()).code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(refusal(testing::make_metadata("gpt2", {}, {}, "gpt-2")).code(), ErrorCode::kInvalidInput);
  const Error twice = refusal(byte_level({{"a"}}));
  EXPECT_EQ(twice.code(), ErrorCode::kInvalidInput);
  EXPECT_NE(twice.message().find("same text"), std::string::npos);

  gguf::Metadata short_types;
  set(short_types, "model", std::string("llama"));
  ASSERT_TRUE(short_types.insert("tokenizer.ggml.tokens", gguf::Array(std::vector<std::string>{"a", "b"})));
  ASSERT_TRUE(short_types.insert("tokenizer.ggml.token_type", gguf::Array(std::vector<int32_t>{1})));
  EXPECT_EQ(refusal(short_types).code(), ErrorCode::kInvalidInput);

  gguf::Metadata no_scores;
  set(no_scores, "model", std::string("llama"));
  ASSERT_TRUE(no_scores.insert("tokenizer.ggml.tokens", gguf::Array(std::vector<std::string>{"a", "b"})));
  EXPECT_NE(refusal(no_scores).message().find("tokenizer.ggml.scores"), std::string::npos);
}

TEST(Vocabulary, DefaultsFollowTheKind) {
  const auto spm = testing::create(sentencepiece({}));
  const auto gpt2 = testing::create(byte_level({}));
  ASSERT_TRUE(spm && gpt2);
  EXPECT_EQ(spm->bos(), 1);
  EXPECT_EQ(spm->eos(), 2);
  EXPECT_TRUE(spm->adds_bos());
  EXPECT_FALSE(spm->adds_eos());
  EXPECT_EQ(gpt2->bos(), std::nullopt);
  EXPECT_FALSE(gpt2->adds_bos());
}

TEST(Vocabulary, KeysOverrideDefaults) {
  gguf::Metadata metadata = byte_level({{"<s>", TokenType::kControl}});
  set(metadata, "bos_token_id", uint32_t{256});
  set(metadata, "eos_token_id", uint32_t{70000});
  set(metadata, "add_bos_token", true);
  set(metadata, "add_eos_token", true);
  const auto tokenizer = testing::create(metadata);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->bos(), 256);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->eos(), std::nullopt);
  EXPECT_FALSE(tokenizer->adds_eos());
  EXPECT_EQ(tokenizer->warnings().size(), 2u);
}

TEST(Vocabulary, EndsOfGenerationComeFromNamesAndKeys) {
  gguf::Metadata metadata = byte_level({{"<|im_end|>", TokenType::kUserDefined},
                                        {"<stop>", TokenType::kControl},
                                        {"<other>", TokenType::kControl},
                                        {"<more>", TokenType::kControl}});
  set(metadata, "eos_token_id", uint32_t{257});
  ASSERT_TRUE(metadata.insert("tokenizer.ggml.eos_token_ids", gguf::Array(std::vector<int32_t>{258, 9999})));
  const auto tokenizer = testing::create(metadata);
  ASSERT_NE(tokenizer, nullptr);
  for (const int32_t id : {256, 257, 258}) EXPECT_TRUE(tokenizer->is_end_of_generation(id)) << id;
  for (const int32_t id : {-1, 0, 259, 260}) EXPECT_FALSE(tokenizer->is_end_of_generation(id)) << id;
  EXPECT_EQ(tokenizer->type(256), TokenType::kControl);
}

TEST(Vocabulary, TheEndOfAHarmonyMessageIsNoEndOfGeneration) {
  const auto tokenizer = testing::create(byte_level({{"<|end|>", TokenType::kControl},
                                                     {"<|return|>", TokenType::kControl},
                                                     {"<|call|>", TokenType::kControl},
                                                     {"<|message|>", TokenType::kControl}}));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_FALSE(tokenizer->is_end_of_generation(256));
  EXPECT_TRUE(tokenizer->is_end_of_generation(257));
  EXPECT_EQ(tokenizer->piece(256), "<|end|>");
  EXPECT_EQ(tokenizer->piece(259), "<|message|>");
  EXPECT_EQ(tokenizer->piece(257), "");
}

TEST(Vocabulary, OfGemma4HasItsOwnEndsAndAlwaysBegins) {
  std::vector<Token> tokens = testing::sentencepiece_tokens();  // its </s> is HTML
  for (const char* text : {"<eos>", "<turn|>", "<bos>"}) tokens.push_back({text, TokenType::kControl});  // 259, …
  for (const char* text : {"<|tool_response>", "<|channel>"}) tokens.push_back({text, TokenType::kUserDefined});
  tokens.push_back({"\u2581"});
  gguf::Metadata metadata = testing::make_metadata("gemma4", tokens);
  set(metadata, "bos_token_id", uint32_t{261});
  set(metadata, "eos_token_id", uint32_t{259});
  set(metadata, "add_bos_token", false);
  const auto tokenizer = testing::create(metadata);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->description(), "gemma4");
  EXPECT_TRUE(tokenizer->adds_bos());
  for (const int32_t id : {259, 260, 262}) EXPECT_TRUE(tokenizer->is_end_of_generation(id)) << id;
  EXPECT_FALSE(tokenizer->is_end_of_generation(2));
  EXPECT_EQ(tokenizer->type(2), TokenType::kNormal);
  EXPECT_EQ(tokenizer->piece(263), "<|channel>");
  EXPECT_EQ(tokenizer->decode(testing::encode(*tokenizer, " a  b")), " a  b");
}

TEST(Vocabulary, AnEndTokensTextThatMergesMakeIsOrdinaryText) {
  const auto tokenizer = testing::create(byte_level({{"</"}, {"s>"}, {"</s>"}}, {"< /", "s >", "</ s>"}));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->type(258), TokenType::kNormal);
  EXPECT_FALSE(tokenizer->is_end_of_generation(258));
  EXPECT_EQ(tokenizer->piece(258), "</s>");
}

TEST(Vocabulary, SuppressedIdsAreInTheVocabulary) {
  gguf::Metadata metadata = byte_level({{"<|im_end|>", TokenType::kControl}});
  ASSERT_TRUE(metadata.insert("tokenizer.ggml.suppress_tokens", gguf::Array(std::vector<int32_t>{7, -1, 3, 90000})));
  const auto tokenizer = testing::create(metadata);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(Ids(tokenizer->suppressed().begin(), tokenizer->suppressed().end()), (Ids{3, 7}));
}

TEST(Vocabulary, SuppressionLeavesAWayToEnd) {
  gguf::Metadata metadata = byte_level({{"<|im_end|>", TokenType::kControl}});
  ASSERT_TRUE(metadata.insert("tokenizer.ggml.suppress_tokens", gguf::Array(std::vector<int32_t>{256, 3})));
  const auto tokenizer = testing::create(metadata);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(Ids(tokenizer->suppressed().begin(), tokenizer->suppressed().end()), (Ids{3}));
  EXPECT_EQ(tokenizer->warnings().size(), 1u);
}

TEST(Vocabulary, PiecesOfByteLevelTokens) {
  const auto tokenizer = testing::create(byte_level({{"\u0120a\u010A"},
                                                     {"x\u4E2D"},
                                                     {"<tool call>", TokenType::kUserDefined},
                                                     {"<s>", TokenType::kControl},
                                                     {"<x>", TokenType::kUnused},
                                                     {""}}));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->piece(256), " a\n");
  EXPECT_EQ(tokenizer->piece(257), "x\u4E2D");
  EXPECT_EQ(tokenizer->piece(258), "<tool call>");
  EXPECT_EQ(tokenizer->piece(259), "");
  EXPECT_EQ(tokenizer->piece(259, true), "<s>");
  EXPECT_EQ(tokenizer->piece(260, true), "");
  EXPECT_EQ(tokenizer->token_text(261), "[EMPTY_261]");
  EXPECT_EQ(tokenizer->piece(-1), "");
  EXPECT_EQ(tokenizer->piece(1 << 30), "");
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(tokenizer->piece(byte), std::string(1, static_cast<char>(byte)));
  }
}

TEST(Vocabulary, PiecesOfSentencePieceTokens) {
  const auto tokenizer = testing::create(sentencepiece({{"\u2581a\u2581"}}));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->piece(259), " a ");
  EXPECT_EQ(tokenizer->piece(0, true), "<unk>");
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(tokenizer->piece(3 + byte), std::string(1, static_cast<char>(byte)));
  }
}

TEST(Vocabulary, DecodeDropsTheSpaceThatEncodeAdded) {
  const auto tokenizer = testing::create(sentencepiece({{"\u2581"}, {"a"}, {"\u2581a"}}));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->decode(Ids{261, 261}), "a a");
  EXPECT_EQ(tokenizer->decode(Ids{1, 261, 261}), "a a");
  EXPECT_EQ(tokenizer->decode(Ids{1, 261}, true), "<s>a");
  EXPECT_EQ(tokenizer->decode(Ids{260, 261}), "a a");
}

TEST(Vocabulary, MergesOfTextsThatAreNoTokensAreIgnoredWithAWarning) {
  const auto tokenizer = testing::create(byte_level({{"ab"}}, {"a b", "ab c", "a", "x y z", ""}));
  ASSERT_NE(tokenizer, nullptr);
  ASSERT_EQ(tokenizer->warnings().size(), 1u);
  EXPECT_NE(tokenizer->warnings()[0].find("4 of 5 merges"), std::string::npos);
  EXPECT_EQ(testing::encode(*tokenizer, "abab"), (Ids{256, 256}));
}

// Whatever a file says, creating a tokenizer from it and using that works or is refused.
TEST(Vocabulary, NoMetadataCrashes) {
  std::mt19937 random(11);
  const std::vector<std::string> units = {"a",      "b",    " ",    "<",      ">",    "|",
                                          "\u2581", "\xFF", "\xE2", "<0x41>", "</s>", "é"};
  const std::vector<const char*> models = {"gpt2", "llama", "gemma4"};
  for (int i = 0; i < 2000; ++i) {
    std::vector<Token> tokens = random() % 2 ? testing::byte_level_tokens() : std::vector<Token>();
    for (uint32_t n = random() % 40; n > 0; --n) {
      tokens.push_back({testing::random_text(random, units, random() % 6), static_cast<TokenType>(random() % 8),
                        static_cast<float>(random() % 5)});
    }
    std::vector<std::string> merges;
    for (uint32_t n = random() % 30; n > 0; --n) merges.push_back(testing::random_text(random, units, random() % 6));
    gguf::Metadata metadata = testing::make_metadata(models[random() % models.size()], tokens, merges, "llama-bpe");
    for (const char* key : {"bos_token_id", "eos_token_id", "unknown_token_id", "eot_token_id"}) {
      if (random() % 2) set(metadata, key, static_cast<int32_t>(random() % 400) - 50);
    }
    const auto tokenizer = Tokenizer::create(metadata);
    if (!tokenizer) continue;
    const auto ids = (*tokenizer)->encode(testing::random_text(random, units, 30), {.parse_special = i % 3 == 0});
    if (!ids) continue;
    for (const int32_t id : *ids) ASSERT_TRUE(id >= 0 && id < (*tokenizer)->n_tokens());
    (*tokenizer)->decode(*ids);
  }
}

TEST(Vocabulary, CharactersWithoutTokensAreNeverControlTokens) {
  std::vector<Token> tokens = testing::byte_level_tokens();
  tokens[4] = {"<|endoftext|>", TokenType::kControl};
  gguf::Metadata metadata = testing::make_metadata("gpt2", tokens, {}, "gpt-2");
  set(metadata, "unknown_token_id", uint32_t{4});
  const auto tokenizer = testing::create(metadata);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(testing::encode(*tokenizer, "a\x04"), (Ids{'a', 0xEF, 0xBF, 0xBD}));
}

}  // namespace
}  // namespace tempo9::tokenizer
