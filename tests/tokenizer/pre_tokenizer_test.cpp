#include "tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>
#include <utf8proc.h>

#include <memory>
#include <random>
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

// A published pattern as PCRE2 must be told it: its own \s also takes U+180E.
std::string spell_out_spaces(std::string_view pattern) {
  const std::string members =
      R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view escape = pattern.substr(i, 2);
    if (escape == "\\s") {
      out += in_class ? members : "[" + members + "]";
      ++i;
    } else if (escape == "\\S") {
      out += "[^" + members + "]";
      ++i;
    } else {
      if (pattern[i] == '[') in_class = true;
      if (pattern[i] == ']') in_class = false;
      out += pattern[i];
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
    for (const Stage& stage : pre.stages) stages_.push_back(std::make_unique<Regex>(spell_out_spaces(stage.pattern)));
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

// Code points to which PCRE2 and utf8proc, which may be of different Unicode versions, give the same class.
std::vector<std::string> agreed_code_points() {
  const Regex letter("\\p{L}");
  const Regex number("\\p{N}");
  std::vector<std::string> units;
  for (char32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 37) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    const bool is_letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    const bool is_number = category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
    if (is_letter == letter.matches(text) && is_number == number.matches(text)) units.push_back(text);
  }
  return units;
}

TEST(PreTokenizer, ScannersEqualARegexEngineOnTextOfAllClasses) {
  std::mt19937 random(1);
  for (const PreTokenizer& pre : pre_tokenizers()) {
    const RegexPreTokenizer oracle(pre);
    for (int i = 0; i < 6000; ++i) {
      const std::string text = testing::random_text(random, testing::units_of_all_classes(), random() % 14);
      ASSERT_EQ(cut(pre.name, text), text.empty() ? Pieces() : oracle.split(text)) << pre.name << ": " << text;
    }
  }
}

TEST(PreTokenizer, ScannersEqualARegexEngineOnAllCodePoints) {
  std::mt19937 random(2);
  const std::vector<std::string> units = agreed_code_points();
  ASSERT_GT(units.size(), 40000u);
  for (const PreTokenizer& pre : pre_tokenizers()) {
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

TEST(PreTokenizer, TextBetweenMatchesIsOnePieceForTheNextStage) {
  EXPECT_EQ(cut("smollm", "1ab cd2"), (Pieces{"1", "ab", " cd", "2"}));
}

}  // namespace
}  // namespace tempo9::tokenizer
