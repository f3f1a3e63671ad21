// Field report C01: long runs of one character class must cost linear time and constant stack. Nothing here looks at a
// clock: scanners and the merger count their steps.
#include <gtest/gtest.h>
#include <pthread.h>

#include <string>
#include <vector>

#include "base/utf8.h"
#include "support/data.h"
#include "tokenizer/merger.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

constexpr size_t kStackBytes = 256 << 10;

const std::vector<std::string>& units_of_runs() {
  static const std::vector<std::string> units = {"a",  " ",  "1",     "\u0301", "\n",   "=",      "中",  "\u0301\u0323",
                                                 "ab", "aB", "a ",    "'",      "Z",    "\u0378", "<",   "<|im_",
                                                 "'s", "$",  "\r\n ", "\u3000", "\xFF", "</s>",   "中A", "/\n"};
  return units;
}

std::string run_of(const std::string& unit, size_t n_bytes) {
  std::string text;
  while (text.size() < n_bytes) text += unit;
  return text;
}

// What `work` does, on a stack of 256 KiB.
template <class Work>
void on_small_stack(Work work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<Work*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

// Looks at the text, while one stage goes over all of it.
size_t n_looks(const Stage& stage, std::string_view text) {
  ScannedText scanned(text);
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = stage.scan(scanned, pos);
    pos = end > pos ? end : scanned.at(pos).end;
  }
  return scanned.n_looks();
}

TEST(LongRuns, AreLookedThroughAFixedNumberOfTimesByEveryPreTokenizer) {
  constexpr size_t kLooksPerByte = 16;
  for (const PreTokenizer& pre : pre_tokenizers()) {
    for (const std::string& unit : units_of_runs()) {
      // A run to the end of the text, and runs that something else follows.
      for (const char* last : {"", "a", ".", " \n"}) {
        const std::string text = sanitize_utf8(run_of(unit, 2000)) + last;
        for (const Stage& stage : pre.stages) {
          ASSERT_LE(n_looks(stage, text), kLooksPerByte * text.size()) << pre.name << " " << stage.pattern << unit;
        }
      }
    }
  }
}

// Symbols whose id is a length: two merge when they are equally long, shorter ones first.
struct CountedDoubling {
  size_t& n_looked_up;

  Merge find(const Symbol& left, const Symbol& right, uint32_t) const {
    ++n_looked_up;
    return left.id == right.id ? Merge{static_cast<uint32_t>(left.id), 2 * left.id} : Merge{};
  }
  void merged(const Symbol&, const Symbol&, uint32_t, int32_t) const {}
};

TEST(LongRuns, AreMergedWithThreeLookUpsPerSymbol) {
  for (const size_t n : {size_t{1'000}, size_t{10'000}, size_t{100'000}}) {
    std::vector<Symbol> row(n);
    for (size_t i = 0; i < n; ++i) row[i] = {1, static_cast<uint32_t>(i)};
    size_t n_looked_up = 0;
    Merger merger;
    ASSERT_TRUE(merger.merge(row, static_cast<uint32_t>(n), CountedDoubling{n_looked_up}, [] { return true; }));
    EXPECT_LT(row.size(), 20u);
    EXPECT_LE(n_looked_up, 3 * n);
  }
}

class LongRunsOf : public ::testing::TestWithParam<std::string> {};

TEST_P(LongRunsOf, OneUnitAreEncodedOnASmallStack) {
  T9_NEED_DATA(GetParam());
  const auto tokenizer = testing::load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string& unit : units_of_runs()) {
    const std::string text = run_of(unit, testing::kIsOptimized ? 1 << 20 : 1 << 14);
    Result<testing::Ids> ids;
    on_small_stack([&] { ids = tokenizer->encode(text, {.parse_special = true}); });
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_FALSE(ids->empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, LongRunsOf, ::testing::ValuesIn(testing::vocabulary_files()),
                         testing::name_of_vocabulary);

}  // namespace
}  // namespace tempo9::tokenizer
