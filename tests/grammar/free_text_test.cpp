// Text up to a marker: held against a search for the marker in the whole text.
#include "grammar/free_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "grammar/support.h"

namespace tempo9::grammar {
namespace {

struct Case {
  std::vector<std::string> closing;
  std::vector<std::string> excluded;
  std::string before;
  Limits characters;
};

const Case kCases[] = {
    {{"<b>"}, {}, "", {}},
    {{"<b>", "ab"}, {"<<"}, "", {}},
    {{"aab"}, {"aba"}, "a", {}},
    {{"<b>"}, {"<a"}, "", {2, 5}},
    {{"aab"}, {"bb"}, "", {1, 4}},
    {{"\nab", "bab"}, {"<a"}, "\n", {}},
    {{"aa"}, {}, "", {3, Limits::kUnlimited}},
};

std::shared_ptr<const Grammar> compile(const Case& c) {
  AutomatonBuilder builder;
  const RuleId rule = builder.add_rule();
  const NodeId end = builder.add_node();
  builder.add_return(end);
  FreeText text{.ends = {}, .before = c.before, .characters = c.characters};
  for (const std::string& marker : c.closing) text.ends.push_back({marker, end});
  for (const std::string& marker : c.excluded) text.ends.push_back({marker, {}});
  add_free_text(builder, builder.start(rule), text);
  return *Grammar::build(std::move(builder), rule, {});
}

// The place behind the first marker of `markers` in `text`; npos when there is none.
size_t first_end(const std::string& text, const std::vector<std::string>& markers) {
  size_t end = std::string::npos;
  for (const std::string& marker : markers) {
    const size_t at = text.find(marker);
    if (at != std::string::npos) end = std::min(end, at + marker.size());
  }
  return end;
}

// Whether `text` is characters and then, at its very end, the first closing marker.
bool is_whole(const Case& c, const std::string& written) {
  const std::string text = c.before + written;
  if (first_end(text, c.closing) != text.size() || first_end(text, c.excluded) <= text.size()) return false;
  const auto marker = std::ranges::find_if(c.closing, [&](const std::string& m) { return text.ends_with(m); });
  if (!c.characters.any()) return true;
  const std::string value = text.substr(0, text.size() - marker->size());
  const auto n = std::ranges::count_if(value, [](char byte) { return (byte & 0xC0) != 0x80; });
  return n >= c.characters.min && n <= static_cast<int64_t>(c.characters.max);
}

TEST(FreeText, EndsWithTheFirstMarkerAndHoldsNoneThatIsExcluded) {
  std::mt19937 random(1);
  const std::vector<std::string> pieces = {"a", "b", "<", ">", "\n", "é", "<b>", "aab", "aa"};
  for (const Case& c : kCases) {
    const auto grammar = compile(c);
    int n_whole = 0;
    for (int i = 0; i < 6000; ++i) {
      std::string text;
      for (size_t n = random() % 9; n > 0; --n) text += pieces[random() % pieces.size()];
      const bool expected = is_whole(c, text);
      n_whole += expected ? 1 : 0;
      ASSERT_EQ(testing::allows(grammar, text), expected) << c.closing.front() << ": " << text;
    }
    EXPECT_GT(n_whole, 5) << c.closing.front();
  }
}

TEST(FreeText, MayEndAnywhereAndBeginWithSomeCharactersOnly) {
  AutomatonBuilder builder;
  const RuleId rule = builder.add_rule();
  add_free_text(builder, builder.start(rule), {.ends = {{"<x>", {}}}, .may_return = true, .not_first = "{["});
  const auto grammar = *Grammar::build(std::move(builder), rule, {});
  for (const char* text : {"", " \n", "a{[", " <x", "<<x", "é"}) EXPECT_TRUE(testing::allows(grammar, text)) << text;
  for (const char* text : {"{", " \n[", "<x>", "a<x>", "\xFF", "\xED\xA0\x80"}) {
    EXPECT_FALSE(testing::allows(grammar, text)) << text;
  }
}

// Characters that may belong to a marker are counted late: none is let in that no longer has room.
// Characters that may belong to a marker are counted late: none is let in that no longer has room.
TEST(FreeText, ALimitLeavesRoomForWhatIsStillUncounted) {
  const auto grammar = compile({{"\n</a>"}, {"</a>", "\n\n<"}, "\n", {0, 4}});
  std::mt19937 random(3);
  for (int walk = 0; walk < 500; ++walk) {
    Matcher matcher(grammar);
    std::string text;
    for (int n_refused = 0; !matcher.can_end();) {
      const char byte = "\n\n</a>x"[random() % 8];
      n_refused = matcher.accept({&byte, 1}) ? 0 : n_refused + 1;
      if (n_refused == 0) text += byte;
      ASSERT_LT(n_refused, 1000) << "a dead end behind " << text;
    }
  }
}

}  // namespace
}  // namespace tempo9::grammar
