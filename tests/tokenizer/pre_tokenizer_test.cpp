#include "tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>
#include <utf8proc.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

using Pieces = std::vector<std::string>;

Pieces cut(std::string_view name, std::string_view text) {
  Pieces pieces;
  for_each_piece(text, find_pre_tokenizer(name)->stages, [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  });
  return pieces;
}

// A published pattern as PCRE2 must be told it: its own \s also takes U+180E, its own \b knows other words than
// Oniguruma's, and it writes code points in another way.
std::string spell_for_pcre2(std::string_view pattern) {
  const std::string members =
      R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\') {
      if (pattern[i] == '[') in_class = true;
      if (pattern[i] == ']') in_class = false;
      out += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 's':
        out += in_class ? members : "[" + members + "]";
        break;
      case 'S':
        out += "[^" + members + "]";
        break;
      case 'b':  // behind a digit
        out += R"((?![\p{L}\p{M}\p{Nd}\p{Pc}]))";
        break;
      case 'u':
        out += "\\x{" + std::string(pattern.substr(i + 1, 4)) + "}";
        i += 4;
        break;
      default:
        out += pattern.substr(i - 1, 2);
    }
  }
  return out;
}

// A regular expression engine as the oracle for the scanners.
class Regex {
 public:
  explicit Regex(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE where = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                              &error, &where, nullptr));
    EXPECT_NE(code_, nullptr) << "offset " << where << " of " << pattern;
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  // Matches in order, and what lies between them.
  Pieces split(std::string_view text) const {
    Pieces pieces;
    size_t pos = 0;
    while (pos < text.size()) {
      const int n = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), pos,
                                PCRE2_NO_UTF_CHECK, match_.get(), nullptr);
      const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match_.get());
      const size_t begin = n > 0 ? span[0] : text.size();
      if (begin > pos) pieces.emplace_back(text.substr(pos, begin - pos));
      if (n > 0) pieces.emplace_back(text.substr(begin, span[1] - begin));
      pos = n > 0 ? span[1] : text.size();
    }
    return pieces;
  }

  bool matches(std::string_view text) const { return split(text) == Pieces{std::string(text)} && has_match(text); }

 private:
  bool has_match(std::string_view text) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match_.get(),
                       nullptr) > 0;
  }

  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

// The stages of one family through the oracle.
class RegexPreTokenizer {
 public:
  explicit RegexPreTokenizer(const PreTokenizer& pre) {
    for (const Stage& stage : pre.stages) stages_.push_back(std::make_unique<Regex>(spell_for_pcre2(stage.pattern)));
  }
  Pieces split(std::string_view text) const {
    Pieces pieces = {std::string(text)};
    for (const auto& stage : stages_) {
      Pieces next;
      for (const std::string& piece : pieces) {
        for (std::string& part : stage->split(piece)) next.push_back(std::move(part));
      }
      pieces = std::move(next);
    }
    return pieces;
  }

 private:
  std::vector<std::unique_ptr<Regex>> stages_;
};

// Code points to which PCRE2 and utf8proc, which may be of different Unicode versions, give the same category.
std::vector<std::string> agreed_code_points() {
  std::map<std::string, Regex> categories;
  for (const char* name : {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
                           "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"}) {
    categories.emplace(name, Regex(std::string("\\p{") + name + "}"));
  }
  std::vector<std::string> units;
  for (char32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 37) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const char* category = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
    if (categories.at(category).matches(text)) units.push_back(text);
  }
  return units;
}

// One of the families with each list of stages.
std::vector<PreTokenizer> distinct_pre_tokenizers() {
  std::vector<PreTokenizer> distinct;
  std::set<const Stage*> seen;
  for (const PreTokenizer& pre : pre_tokenizers()) {
    if (seen.insert(pre.stages.data()).second) distinct.push_back(pre);
  }
  return distinct;
}

TEST(PreTokenizer, ScannersEqualARegexEngineOnTextOfAllClasses) {
  std::mt19937 random(1);
  for (const PreTokenizer& pre : distinct_pre_tokenizers()) {
    const RegexPreTokenizer oracle(pre);
    for (int i = 0; i < 6000; ++i) {
      const std::string text = testing::random_text(random, testing::units_of_all_classes(), random() % 14);
      ASSERT_EQ(cut(pre.name, text), text.empty() ? Pieces() : oracle.split(text)) << pre.name << ": " << text;
    }
  }
}

// Few classes at a time: long runs, and the borders between two or three of them.
TEST(PreTokenizer, ScannersEqualARegexEngineOnTextOfFewClasses) {
  std::mt19937 random(3);
  const auto all = testing::units_of_all_classes();
  for (const PreTokenizer& pre : distinct_pre_tokenizers()) {
    const RegexPreTokenizer oracle(pre);
    for (int i = 0; i < 3000; ++i) {
      std::vector<std::string> units(2 + random() % 3);
      for (std::string& unit : units) unit = all[random() % all.size()];
      const std::string text = testing::random_text(random, units, 1 + random() % 12);
      ASSERT_EQ(cut(pre.name, text), oracle.split(text)) << pre.name << ": " << text;
    }
  }
}

TEST(PreTokenizer, ScannersEqualARegexEngineOnAllCodePoints) {
  std::mt19937 random(2);
  const std::vector<std::string> units = agreed_code_points();
  ASSERT_GT(units.size(), 40000u);
  for (const PreTokenizer& pre : distinct_pre_tokenizers()) {
    const RegexPreTokenizer oracle(pre);
    std::string text;
    for (const std::string& unit : units) text += unit + (random() % 3 == 0 ? " " : "");
    ASSERT_EQ(cut(pre.name, text), oracle.split(text)) << pre.name;
  }
}

TEST(PreTokenizer, CutsLikeGpt2) {
  EXPECT_EQ(cut("gpt-2", "Hello  world"), (Pieces{"Hello", " ", " world"}));
  EXPECT_EQ(cut("gpt-2", "I'm 1234, don'T"), (Pieces{"I", "'m", " 1234", ",", " don", "'", "T"}));
  EXPECT_EQ(cut("gpt-2", "x\n\n  "), (Pieces{"x", "\n\n  "}));
  EXPECT_EQ(cut("gpt-2", "\tfoo"), (Pieces{"\t", "foo"}));
}

TEST(PreTokenizer, CutsLikeLlama3) {
  EXPECT_EQ(cut("llama-bpe", "WE'LL 1234567\tfoo"), (Pieces{"WE", "'LL", " ", "123", "456", "7", "\tfoo"}));
  EXPECT_EQ(cut("llama-bpe", "x\n \n y"), (Pieces{"x", "\n \n", " y"}));
  EXPECT_EQ(cut("llama-bpe", "foo);\r\n\r\nbar"), (Pieces{"foo", ");\r\n\r\n", "bar"}));
  EXPECT_EQ(cut("llama-bpe", "it'ſ"), (Pieces{"it", "'ſ"}));
}

TEST(PreTokenizer, CutsDigitsSinglyInQwenAndSmolLm) {
  EXPECT_EQ(cut("qwen2", "a 12"), (Pieces{"a", " ", "1", "2"}));
  EXPECT_EQ(cut("smollm", "a 12 b"), (Pieces{"a", " ", "1", "2", " b"}));
}

TEST(PreTokenizer, MarksAreLettersInQwen35) {
  EXPECT_EQ(cut("qwen35", "e\u0301a b\u0301"), (Pieces{"e\u0301a", " b\u0301"}));
  EXPECT_EQ(cut("qwen2", "e\u0301a"), (Pieces{"e", "\u0301a"}));
}

TEST(PreTokenizer, CutsAtCapitalsInTekkenAndO200k) {
  EXPECT_EQ(cut("tekken", "HTTPServer iPhone ABCdEF"), (Pieces{"HTTPServer", " i", "Phone", " ABCd", "EF"}));
  EXPECT_EQ(cut("tekken", "ПриветМир"), (Pieces{"Привет", "Мир"}));
  EXPECT_EQ(cut("gpt-4o", "日本A"), (Pieces{"日本", "A"}));
  EXPECT_EQ(cut("gpt-4o", "We'Ve don'ts 1234"), (Pieces{"We'Ve", " don't", "s", " ", "123", "4"}));
  EXPECT_EQ(cut("tekken", "don't 12"), (Pieces{"don", "'t", " ", "1", "2"}));
  EXPECT_EQ(cut("tekken", "a/b/\n/c"), (Pieces{"a", "/b", "/\n/", "c"}));
}

TEST(PreTokenizer, CutsLikeDeepSeekV3) {
  EXPECT_EQ(cut("deepseek-v3", "a.append(x)'s 1234你好ab"),
            (Pieces{"a", ".append", "(x", ")'", "s", " ", "123", "4", "你好", "ab"}));
  EXPECT_EQ(cut("deepseek-v3", "\x01\x02"), (Pieces{"\x01\x02"}));
}

TEST(PreTokenizer, CutsLikeDeepSeekLlmAndCoder) {
  EXPECT_EQ(cut("deepseek-llm", "ab 中文 12\n"), (Pieces{"ab", " ", "中文", " ", "12", "\n"}));
  EXPECT_EQ(cut("deepseek-coder", "ab 中, 12  "), (Pieces{"ab", " ", "中", ",", " ", "1", "2", "  "}));
}

TEST(PreTokenizer, GroupsDigitsFromTheRightInCohere2Moe) {
  EXPECT_EQ(cut("cohere2moe", "1234567 12 12345a"), (Pieces{"1", "234", "567", " ", "12", " ", "123", "45", "a"}));
}

TEST(PreTokenizer, TextBetweenMatchesIsOnePieceForTheNextStage) {
  EXPECT_EQ(cut("smollm", "1ab cd2"), (Pieces{"1", "ab", " cd", "2"}));
}

}  // namespace
}  // namespace tempo9::tokenizer
