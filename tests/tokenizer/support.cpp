#include "tokenizer/support.h"

#include <algorithm>
#include <filesystem>

#include "base/utf8.h"
#include "support/data.h"
#include "tokenizer/byte_alphabet.h"

namespace tempo9::tokenizer::testing {

std::vector<std::string> tiny_vocabulary_files() {
  std::vector<std::string> files;
  for (const char* name : {"llama", "qwen3", "mistral-spm", "gemma3"}) {
    files.push_back(tempo9::testing::golden_path(std::string(name) + "/model.gguf"));
  }
  for (const char* name : {"qwen35", "mistral3", "gpt-oss", "gemma4"}) {
    files.push_back(tempo9::testing::golden_path("tokenizers/" + std::string(name) + ".gguf"));
  }
  return files;
}

std::vector<std::string> vocabulary_files() {
  std::vector<std::string> files = tiny_vocabulary_files();
  if (kIsOptimized) {
    for (const char* name : {"llama3_1", "qwen3", "llama2_spm", "gptoss"}) {
      files.push_back(tempo9::testing::reference_path("tokenizers/" + std::string(name) + ".gguf"));
    }
  }
  return files;
}

std::string name_of_vocabulary(const ::testing::TestParamInfo<std::string>& test) {
  const std::filesystem::path path = test.param;
  const bool is_golden = test.param.starts_with(tempo9::testing::golden_path(""));
  std::string name = is_golden ? "golden_" : "real_";
  name += path.filename() == "model.gguf" ? path.parent_path().filename().string() : path.stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
}

std::unique_ptr<Tokenizer> create(const gguf::Metadata& metadata, const CreateOptions& options) {
  auto tokenizer = Tokenizer::create(metadata, options);
  if (tokenizer) return *std::move(tokenizer);
  ADD_FAILURE() << tokenizer.error().message();
  return nullptr;
}

std::unique_ptr<Tokenizer> load(const std::string& gguf_path) {
  const auto file = gguf::File::open(gguf_path);
  if (file) return create((*file)->metadata());
  ADD_FAILURE() << file.error().message();
  return nullptr;
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  auto ids = tokenizer.encode(text, options);
  if (ids) return *std::move(ids);
  ADD_FAILURE() << ids.error().message();
  return {};
}

gguf::Metadata make_metadata(std::string_view model, std::span<const Token> tokens, std::span<const std::string> merges,
                             std::string_view pre) {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  for (const Token& token : tokens) {
    texts.push_back(token.text);
    types.push_back(static_cast<int32_t>(token.type));
    scores.push_back(token.score);
  }
  gguf::Metadata metadata;
  const auto insert = [&](const char* key, gguf::MetaValue value) {
    EXPECT_TRUE(metadata.insert(std::string("tokenizer.ggml.") + key, std::move(value)));
  };
  insert("model", gguf::Scalar(std::string(model)));
  insert("tokens", gguf::Array(texts));
  insert("token_type", gguf::Array(types));
  if (model == "llama") insert("scores", gguf::Array(scores));
  if (model != "llama") insert("merges", gguf::Array(std::vector<std::string>(merges.begin(), merges.end())));
  if (!pre.empty()) insert("pre", gguf::Scalar(std::string(pre)));
  return metadata;
}

std::vector<Token> byte_level_tokens() {
  std::vector<Token> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.emplace_back();
    append_utf8(tokens.back().text, byte_to_character(static_cast<uint8_t>(byte)));
  }
  return tokens;
}

std::vector<Token> sentencepiece_tokens() {
  std::vector<Token> tokens = {
      {"<unk>", TokenType::kUnknown}, {"<s>", TokenType::kControl}, {"</s>", TokenType::kControl}};
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    tokens.push_back({std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", TokenType::kByte});
  }
  return tokens;
}

std::string random_text(std::mt19937& random, std::span<const std::string> units, size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += units[random() % units.size()];
  return text;
}

std::span<const std::string> units_of_all_classes() {
  static const std::vector<std::string> units = {
      "a",
      "s",
      "t",
      "S",
      "re",
      "LL",
      "ve",
      "D",
      "é",
      "ſ",
      "ǅ",
      "ʰ",
      "A",
      "BC",
      "ʼ",
      "ß",
      "中",
      "々",
      "ア",
      "가",
      "П",
      "п",  // letters
      "1",
      "23",
      "٣",
      "½",
      "Ⅷ",
      "𝟘",  // numbers
      " ",
      " ",
      "  ",
      "\t",
      "\v",
      "\u0085",
      "\u00A0",
      "\u1680",
      "\u2003",
      "\u2028",
      "\u3000",  // spaces
      "\n",
      "\r",
      "\r\n",  // newlines
      "'",
      "\"",
      ".",
      "/",
      "=",
      "_",
      "‿",
      "“",
      "。",
      "¡",
      "`",
      "$",
      "—",
      "，",
      "€",
      "😀",  // punctuation, symbols
      "\u0301",
      "\u0300",
      "\u093F",
      "\u20E3",
      "\uFE0F",  // marks
      std::string(1, '\0'),
      "\x01",
      "\x7F",
      "\u009F",
      "\u00AD",
      "\u180E",
      "\u200B",
      "\u200D",  // controls, formats
      "\u0378",
      "\uE000",
      "\uFEFF",
      "\uFFFD",
      "\uFFFF",
      "\U0010FFFF",  // not assigned, private
      "\u0120",
      "\u010A",
      "\u2581",  // what tokens are written with
  };
  return units;
}

}  // namespace tempo9::tokenizer::testing
