// Tokenizers that are not implemented: for each, a file that asks for it is refused, and the message names it. Nothing
// is guessed: ids from the wrong algorithm decode into fluent text from the wrong distribution.
#include <gtest/gtest.h>

#include <string>

#include "gguf/writer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

// What the user sees of a file with this tokenizer.
Error refusal(std::string_view model, std::string_view pre) {
  const gguf::Metadata metadata = testing::make_metadata(model, testing::byte_level_tokens(), {}, pre);
  gguf::Writer writer;
  for (const auto& [key, value] : metadata.entries()) writer.add(key, value);
  const std::vector<std::byte> bytes = writer.bytes();
  const auto file = gguf::File::parse(bytes, "test.gguf");
  if (!file) return file.error();
  const auto tokenizer = Tokenizer::create((*file)->metadata());
  return tokenizer ? Error(ErrorCode::kInternal, "it was accepted") : tokenizer.error();
}

class RefusedModel : public ::testing::TestWithParam<const char*> {};

TEST_P(RefusedModel, IsNamed) {
  const Error error = refusal(GetParam(), "");
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(error.message(),
            "unknown tokenizer model '" + std::string(GetParam()) + "' (supported: gpt2, llama, gemma4)");
}

INSTANTIATE_TEST_SUITE_P(All, RefusedModel,
                         ::testing::Values("bert", "t5", "rwkv", "plamo2", "whitespace", "hybriddna", "none",
                                           "no_vocab", "replit", "", "GPT2", "gpt2 "));

class RefusedPreTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(RefusedPreTokenizer, IsNamed) {
  const Error error = refusal("gpt2", GetParam());
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(error.message(),
            "unknown pre-tokenizer '" + std::string(GetParam()) + "' (supported: " + pre_tokenizer_names() + ")");
}

INSTANTIATE_TEST_SUITE_P(All, RefusedPreTokenizer,
                         ::testing::Values("default", "youtu", "kimi-k2", "bailingmoe", "bailingmoe2", "llada-moe",
                                           "seed-coder", "superbpe", "afmoe", "exaone-moe", "jais-2", "poro-chat",
                                           "bloom", "gpt3-finnish", "viking", "chameleon", "laguna", "spark2_5",
                                           "minicpm5", "ufakzeka", "granite-embed-multi-97m",
                                           "granite-embed-multi-311m", "sarvam-moe", "whitespace", "jina-v2-en",
                                           "jina-es", "roberta-bpe", "modern-bert", "k2-horizon", "gemma4", "Qwen2",
                                           "qwen2 "));

TEST(RefusedPreTokenizer, AbsenceIsNamedToo) {
  const Error error = refusal("gpt2", "");
  EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(error.message(), "metadata tokenizer.ggml.pre is missing: name the pre-tokenizer (supported: " +
                                 pre_tokenizer_names() + ")");
}

TEST(RefusedPreTokenizer, NamesFromFilesArePrintable) {
  EXPECT_EQ(refusal("gp\xFFt", "").message(), "unknown tokenizer model 'gp\uFFFDt' (supported: gpt2, llama, gemma4)");
  EXPECT_TRUE(refusal("gpt2", "a\xC3").message().starts_with("unknown pre-tokenizer 'a\uFFFD' (supported: "));
}

}  // namespace
}  // namespace tempo9::tokenizer
