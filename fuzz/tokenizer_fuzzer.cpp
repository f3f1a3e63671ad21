// Encodes arbitrary bytes with small vocabularies of every kind and checks what must hold for any text.
// Input: one byte that picks the tokenizer, one of flags, two for the borders of a trusted range, then the text.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "gguf/file.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace tempo9;
using tokenizer::TokenType;

struct Vocabulary {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;

  void add(std::string text, TokenType type, float score = 0) {
    texts.push_back(std::move(text));
    types.push_back(static_cast<int32_t>(type));
    scores.push_back(score);
  }
};

void add_specials(Vocabulary& vocabulary) {
  for (const char* text : {"<s>", "<|im_start|>", "<|im_end|>"}) vocabulary.add(text, TokenType::kControl);
  for (const char* text : {"<think>", "  ", "<|channel|>"}) vocabulary.add(text, TokenType::kUserDefined);
}

std::unique_ptr<tokenizer::Tokenizer> create(const char* model, Vocabulary vocabulary, std::string_view pre) {
  gguf::Metadata metadata;
  const auto insert = [&](const char* key, gguf::MetaValue value) {
    T9_CHECK(metadata.insert(std::string("tokenizer.ggml.") + key, std::move(value)).has_value());
  };
  insert("model", gguf::Scalar(std::string(model)));
  insert("pre", gguf::Scalar(std::string(pre)));
  insert("tokens", gguf::Array(std::move(vocabulary.texts)));
  insert("token_type", gguf::Array(std::move(vocabulary.types)));
  insert("scores", gguf::Array(std::move(vocabulary.scores)));
  insert("merges", gguf::Array(std::move(vocabulary.merges)));
  auto created = tokenizer::Tokenizer::create(metadata);
  T9_CHECK(created.has_value());
  return *std::move(created);
}

Vocabulary byte_level() {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, tokenizer::byte_to_character(static_cast<uint8_t>(byte)));
    vocabulary.add(text, TokenType::kNormal);
  }
  const std::array<std::array<const char*, 2>, 9> merges = {
      {{"a", "a"}, {"aa", "aa"}, {"a", "b"}, {"Ġ", "a"}, {"Ġ", "Ġ"}, {"Ċ", "Ċ"}, {"1", "1"}, {"<", "|"}, {"ä", "¸"}}};
  for (const auto& [left, right] : merges) {
    vocabulary.add(std::string(left) + right, TokenType::kNormal);
    vocabulary.merges.push_back(std::string(left) + " " + right);
  }
  add_specials(vocabulary);
  return vocabulary;
}

Vocabulary sentencepiece() {
  Vocabulary vocabulary;
  vocabulary.add("<unk>", TokenType::kUnknown);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    vocabulary.add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", TokenType::kByte);
  }
  float score = 0;
  for (const char* text : {"▁", "a", "b", "aa", "aaaa", "▁a", "▁▁", "ab", "中", "中中", "<", "|"}) {
    vocabulary.add(text, TokenType::kNormal, score -= 1);
  }
  vocabulary.add("ba", TokenType::kUnused, -0.5F);
  add_specials(vocabulary);
  return vocabulary;
}

const std::vector<std::unique_ptr<tokenizer::Tokenizer>>& tokenizers() {
  static const auto all = [] {
    std::vector<std::unique_ptr<tokenizer::Tokenizer>> made;
    for (const auto& pre : tokenizer::pre_tokenizers()) made.push_back(create("gpt2", byte_level(), pre.name));
    made.push_back(create("llama", sentencepiece(), ""));
    return made;
  }();
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const auto& tokenizer = *tokenizers()[data[0] % tokenizers().size()];
  const uint8_t flags = data[1];
  const std::string_view text(reinterpret_cast<const char*>(data) + 4, size - 4);
  const size_t begin = data[2] % (text.size() + 1);
  const tokenizer::ByteRange range{begin, begin + data[3] % (text.size() - begin + 1)};

  tokenizer::EncodeOptions options{.parse_special = (flags & 1) != 0, .normalize = (flags & 2) != 0};
  if (flags & 4) options.special_allowed = std::span(&range, 1);
  const auto ids = tokenizer.encode(text, options);
  T9_CHECK(ids.has_value());
  for (const int32_t id : *ids) {
    T9_CHECK(id >= 0 && id < tokenizer.n_tokens());
    if (!options.parse_special) T9_CHECK(tokenizer.type(id) != TokenType::kControl);
  }
  const bool is_byte_level = tokenizer.description().starts_with("gpt2");
  if (is_byte_level && !options.normalize) T9_CHECK(tokenizer.decode(*ids, true) == sanitize_utf8(text));

  options.max_tokens = 1 + flags / 8;
  const auto limited = tokenizer.encode(text, options);
  const auto n_tokens = static_cast<int64_t>(ids->size());
  T9_CHECK(limited.has_value() == (n_tokens <= options.max_tokens));
  if (!limited) T9_CHECK(limited.error().overflow()->n_tokens == n_tokens);
  return 0;
}
