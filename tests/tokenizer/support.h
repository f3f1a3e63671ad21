// Loading and making tokenizers for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::tokenizer::testing {

using Ids = std::vector<int32_t>;

// Tests that would take long without optimisation look at this.
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
inline constexpr bool kIsOptimized = true;
#else
inline constexpr bool kIsOptimized = false;
#endif

// Files with a tokenizer: of the tiny models, one of each kind.
std::vector<std::string> tiny_vocabulary_files();
// Those, and in optimised builds the real vocabularies.
std::vector<std::string> vocabulary_files();
// For INSTANTIATE_TEST_SUITE_P: "golden_llama", "tokenizers_qwen3".
std::string name_of_vocabulary(const ::testing::TestParamInfo<std::string>& test);

// Null, and a test failure, when it does not work.
std::unique_ptr<Tokenizer> create(const gguf::Metadata& metadata, const CreateOptions& options = {});
std::unique_ptr<Tokenizer> load(const std::string& gguf_path);

// No ids, and a test failure, when it does not work.
Ids encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {});

struct Token {
  std::string text;
  TokenType type = TokenType::kNormal;
  float score = 0;
};

// tokenizer.ggml.tokens, token_type and, for the model "llama", scores; merges as "LEFT RIGHT" for others.
gguf::Metadata make_metadata(std::string_view model, std::span<const Token> tokens,
                             std::span<const std::string> merges = {}, std::string_view pre = {});

// The 256 bytes in the alphabet of byte-level vocabularies, ids 0 to 255.
std::vector<Token> byte_level_tokens();
// <unk>, <s>, </s> and the 256 byte tokens, as SentencePiece models begin.
std::vector<Token> sentencepiece_tokens();

// A text of `n` units, each drawn from `units`.
std::string random_text(std::mt19937& random, std::span<const std::string> units, size_t n);

// One unit or more of every character class that pre-tokenizers tell apart, and what is easy to get wrong.
std::span<const std::string> units_of_all_classes();

}  // namespace tempo9::tokenizer::testing
