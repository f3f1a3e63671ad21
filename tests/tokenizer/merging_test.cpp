// The merge loops against the definition: look through all pairs, merge the best, begin again.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

using testing::Ids;
using testing::Token;

struct Vocabulary {
  std::vector<Token> tokens;
  std::vector<std::string> merges;
};

// Random merges of what is there already, in letters that alphabet and bytes write alike.
Vocabulary random_byte_level(std::mt19937& random, int n_merges) {
  Vocabulary out{testing::byte_level_tokens(), {}};
  std::vector<std::string> parts = {"a", "b", "c"};
  std::set<std::string> known(parts.begin(), parts.end());
  while (static_cast<int>(out.merges.size()) < n_merges) {
    const std::string left = parts[random() % parts.size()];
    const std::string right = parts[random() % parts.size()];
    if (left.size() + right.size() > 12 || !known.insert(left + right).second) continue;
    parts.push_back(left + right);
    out.tokens.push_back({left + right});
    out.merges.push_back(left + " " + right);
  }
  return out;
}

void merge_by_definition(std::vector<std::string>& symbols, const std::map<std::string, size_t>& ranks) {
  while (true) {
    std::optional<size_t> best;
    size_t best_rank = SIZE_MAX;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find(symbols[i] + " " + symbols[i + 1]);
      if (found == ranks.end() || found->second >= best_rank) continue;
      best = i;
      best_rank = found->second;
    }
    if (!best) break;
    symbols[*best] += symbols[*best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(*best + 1));
  }
}

Ids naive_byte_level(const Vocabulary& vocabulary, const std::string& text) {
  std::map<std::string, size_t> ranks;
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) ranks[vocabulary.merges[i]] = i;
  std::vector<std::string> symbols;
  for (const char c : text) symbols.emplace_back(1, c);
  merge_by_definition(symbols, ranks);
  Ids ids;
  for (const std::string& symbol : symbols) {
    const auto found = std::ranges::find(vocabulary.tokens, symbol, &Token::text);
    ids.push_back(static_cast<int32_t>(found - vocabulary.tokens.begin()));
  }
  return ids;
}

TEST(Merging, ByteLevelEqualsTheDefinition) {
  std::mt19937 random(4);
  const std::vector<std::string> letters = {"a", "b", "c"};
  for (int round = 0; round < 20; ++round) {
    const Vocabulary vocabulary = random_byte_level(random, 5 + round * 3);
    const auto tokenizer =
        testing::create(testing::make_metadata("gpt2", vocabulary.tokens, vocabulary.merges, "gpt-2"));
    ASSERT_NE(tokenizer, nullptr);
    for (int i = 0; i < 25; ++i) {
      // Both sides of the length at which a heap takes over.
      const std::string text = testing::random_text(random, letters, random() % 90);
      ASSERT_EQ(testing::encode(*tokenizer, text), naive_byte_level(vocabulary, text)) << text;
    }
  }
}

// Random texts as tokens, with few distinct scores so that ties occur, and some of them unused.
Vocabulary random_sentencepiece(std::mt19937& random, int n_texts) {
  Vocabulary out{testing::sentencepiece_tokens(), {}};
  const std::vector<std::string> characters = {"a", "b", "é", "\u2581"};
  std::set<std::string> known;
  for (const char* character : {"a", "b", "\u2581"}) {
    known.insert(character);
    out.tokens.push_back({character, TokenType::kNormal, -100});
  }
  while (static_cast<int>(known.size()) < n_texts) {
    const std::string text = testing::random_text(random, characters, 2 + random() % 4);
    if (!known.insert(text).second) continue;
    const TokenType type = random() % 6 == 0 ? TokenType::kUnused : TokenType::kNormal;
    out.tokens.push_back({text, type, -static_cast<float>(random() % 20)});
  }
  return out;
}

class NaiveSentencePiece {
 public:
  explicit NaiveSentencePiece(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
      const Token& token = vocabulary.tokens[i];
      if (token.type == TokenType::kNormal || token.type == TokenType::kUnused) ids_[token.text] = i;
    }
  }

  Ids encode(const std::string& text) {
    std::vector<std::string> symbols;
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      decode_utf8(text, pos);
      symbols.push_back(text.substr(begin, pos - begin));
      if (symbols.back() == " ") symbols.back() = "\u2581";
    }
    if (!symbols.empty()) symbols.insert(symbols.begin(), "\u2581");
    // Copies of a text may have been joined at different places: each symbol carries its own history.
    std::vector<std::string> histories = symbols;
    while (true) {
      std::optional<size_t> best;
      float best_score = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = ids_.find(symbols[i] + symbols[i + 1]);
        if (found == ids_.end()) continue;
        const float score = vocabulary_.tokens[found->second].score;
        if (best && score <= best_score) continue;
        best = i;
        best_score = score;
      }
      if (!best) break;
      const size_t i = *best;
      const std::string joined = symbols[i] + symbols[i + 1];
      const bool unused = vocabulary_.tokens[ids_.at(joined)].type == TokenType::kUnused;
      histories[i] = unused ? "(" + histories[i] + "|" + histories[i + 1] + ")" : joined;
      symbols[i] = joined;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i + 1));
      histories.erase(histories.begin() + static_cast<std::ptrdiff_t>(i + 1));
    }
    Ids ids;
    for (const std::string& history : histories) emit(history, ids);
    return ids;
  }

 private:
  // A history is a text, or two of them joined into an unused token.
  void emit(const std::string& history, Ids& ids) const {
    std::string part;
    const auto flush = [&] {
      const auto found = ids_.find(part);
      if (found != ids_.end()) {
        ids.push_back(static_cast<int32_t>(found->second));
      } else {
        for (const char c : part) ids.push_back(3 + static_cast<uint8_t>(c));
      }
      part.clear();
    };
    for (const char c : history) {
      if (c == '(' || c == '|' || c == ')') {
        if (!part.empty()) flush();
      } else {
        part += c;
      }
    }
    if (!part.empty()) flush();
  }

  const Vocabulary& vocabulary_;
  std::map<std::string, size_t> ids_;
};

TEST(Merging, SentencePieceEqualsTheDefinition) {
  std::mt19937 random(5);
  const std::vector<std::string> characters = {"a", "b", "é", " ", "x"};
  for (int round = 0; round < 20; ++round) {
    const Vocabulary vocabulary = random_sentencepiece(random, 8 + round * 4);
    const auto tokenizer = testing::create(testing::make_metadata("llama", vocabulary.tokens));
    ASSERT_NE(tokenizer, nullptr);
    NaiveSentencePiece naive(vocabulary);
    for (int i = 0; i < 25; ++i) {
      const std::string text = testing::random_text(random, characters, random() % 90);
      ASSERT_EQ(testing::encode(*tokenizer, text), naive.encode(text)) << text;
    }
  }
}

Ids naive_gemma4(const Vocabulary& vocabulary, const std::string& text) {
  std::map<std::string, size_t> ranks;
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) ranks.emplace(vocabulary.merges[i], i);
  std::vector<std::string> symbols;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    decode_utf8(text, pos);
    symbols.push_back(text[begin] == ' ' ? "\u2581" : text.substr(begin, pos - begin));
  }
  merge_by_definition(symbols, ranks);
  Ids ids;
  for (const std::string& symbol : symbols) {
    const auto found = std::ranges::find(vocabulary.tokens, symbol, &Token::text);
    if (found != vocabulary.tokens.end()) {
      ids.push_back(static_cast<int32_t>(found - vocabulary.tokens.begin()));
    } else {
      for (const char c : symbol) ids.push_back(3 + static_cast<uint8_t>(c));
    }
  }
  return ids;
}

// Merges of characters, marks for spaces and newlines.
Vocabulary random_gemma4(std::mt19937& random, int n_merges) {
  Vocabulary out{testing::sentencepiece_tokens(), {}};
  std::vector<std::string> parts = {"a", "b", "\u2581", "\n"};
  for (const std::string& part : parts) out.tokens.push_back({part});
  std::set<std::string> known(parts.begin(), parts.end());
  while (static_cast<int>(out.merges.size()) < n_merges) {
    const std::string left = parts[random() % parts.size()];
    const std::string right = parts[random() % parts.size()];
    if (left.size() + right.size() > 12 || !known.insert(left + right).second) continue;
    parts.push_back(left + right);
    out.tokens.push_back({left + right});
    out.merges.push_back(left + " " + right);
  }
  return out;
}

TEST(Merging, Gemma4EqualsTheDefinition) {
  std::mt19937 random(6);
  const std::vector<std::string> characters = {"a", "b", "é", " ", "x", "\n"};
  for (int round = 0; round < 20; ++round) {
    const Vocabulary vocabulary = random_gemma4(random, 5 + round * 3);
    const auto tokenizer = testing::create(testing::make_metadata("gemma4", vocabulary.tokens, vocabulary.merges));
    ASSERT_NE(tokenizer, nullptr);
    for (int i = 0; i < 25; ++i) {
      const std::string text = testing::random_text(random, characters, random() % 90);
      ASSERT_EQ(testing::encode(*tokenizer, text), naive_gemma4(vocabulary, text)) << text;
    }
  }
}

TEST(Merging, Gemma4TakesARunOfNewlinesThatNoMergeMakesAsItIs) {
  std::vector<Token> tokens = testing::sentencepiece_tokens();  // 259 and up:
  for (const char* text : {"\n", "a", "\n\n", "\n\n\n", "\na"}) tokens.push_back({text});
  const auto without = testing::create(testing::make_metadata("gemma4", tokens, std::vector<std::string>{"\n a"}));
  const auto with =
      testing::create(testing::make_metadata("gemma4", tokens, std::vector<std::string>{"\n a", "\n \n", "\n\n \n"}));
  ASSERT_TRUE(without && with);
  EXPECT_EQ(testing::encode(*without, "a\n\na"), (Ids{260, 261, 260}));
  EXPECT_EQ(testing::encode(*without, "\n\n\n"), (Ids{262}));
  EXPECT_EQ(testing::encode(*without, "\n\n\n\na"), (Ids{259, 259, 259, 263}));
  EXPECT_EQ(testing::encode(*with, "a\n\na"), (Ids{260, 259, 263}));
}

TEST(Merging, AWholeWordWinsOverMergesOnlyWhereTheFamilySaysSo) {
  std::vector<Token> tokens = testing::byte_level_tokens();
  for (const char* text : {"ab", "bc", "abc"}) tokens.push_back({text});
  const std::vector<std::string> merges = {"b c", "a b"};
  const auto llama = testing::create(testing::make_metadata("gpt2", tokens, merges, "llama-bpe"));
  const auto gpt2 = testing::create(testing::make_metadata("gpt2", tokens, merges, "gpt-2"));
  ASSERT_TRUE(llama && gpt2);
  EXPECT_EQ(testing::encode(*llama, "abc"), (Ids{258}));
  EXPECT_EQ(testing::encode(*gpt2, "abc"), (Ids{'a', 257}));
}

TEST(Merging, ExtraSpacesGoWhereTheFileSaysSo) {
  std::vector<Token> tokens = testing::sentencepiece_tokens();
  for (const char* text : {"\u2581", "a", "b"}) tokens.push_back({text});
  gguf::Metadata metadata = testing::make_metadata("llama", tokens);
  ASSERT_TRUE(metadata.insert("tokenizer.ggml.remove_extra_whitespaces", gguf::Scalar(true)));
  const auto tokenizer = testing::create(metadata);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(testing::encode(*tokenizer, "  a   b "), (Ids{259, 260, 259, 261}));
  EXPECT_EQ(testing::encode(*tokenizer, "   "), Ids{});
}

}  // namespace
}  // namespace tempo9::tokenizer
