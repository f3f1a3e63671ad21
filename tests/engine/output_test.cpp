#include "engine/output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include <random>

namespace tempo9::engine {
namespace {

struct Shown {
  std::string text;
  std::vector<std::string> pieces;  // of each take()
  std::vector<int32_t> tokens;
  std::vector<TokenInfo> infos;
  bool stopped = false;
};

Shown show(std::vector<std::string> stops, const std::vector<std::string>& pieces, bool logprobs = true) {
  Output output(std::move(stops), logprobs);
  Shown shown;
  const auto take = [&] {
    Event event = output.take();
    shown.text += event.text;
    shown.pieces.push_back(event.text);
    shown.tokens.insert(shown.tokens.end(), event.tokens.begin(), event.tokens.end());
    std::ranges::move(event.logprobs, std::back_inserter(shown.infos));
  };
  for (int32_t token = 0; token < static_cast<int32_t>(pieces.size()); ++token) {
    TokenInfo info{.chosen = {.token = token, .logprob = -1.0f}, .top = {}, .bytes = {}};
    shown.stopped = output.add(token, pieces[static_cast<size_t>(token)], std::move(info));
    if (shown.stopped) break;
    if (output.has_text()) take();
  }
  shown.stopped = output.finish() || shown.stopped;
  take();
  return shown;
}

std::string join_bytes(const Shown& shown) {
  std::string text;
  for (const TokenInfo& info : shown.infos) text += info.bytes;
  return text;
}

TEST(Output, ReleasesTextAtOnceWithoutStops) {
  const Shown shown = show({}, {"Hel", "lo", " you"});
  EXPECT_EQ(shown.pieces, (std::vector<std::string>{"Hel", "lo", " you", ""}));
  EXPECT_EQ(shown.infos.size(), 3u);
  EXPECT_FALSE(shown.stopped);
}

TEST(Output, NothingOfAStopStringLeaks) {
  const Shown shown = show({"DEFGHIJ"}, {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"});
  EXPECT_EQ(shown.text, "ABC");
  EXPECT_TRUE(shown.stopped);
  EXPECT_EQ(shown.pieces, (std::vector<std::string>{"A", "B", "C", ""}));
  EXPECT_EQ(shown.tokens.size(), 10u);
  EXPECT_EQ(shown.infos.size(), 3u);
}

TEST(Output, APartialMatchThatFailsIsReleased) {
  const Shown shown = show({"abcd"}, {"xa", "b", "c", "e"});
  EXPECT_EQ(shown.pieces, (std::vector<std::string>{"x", "abce", ""}));
  EXPECT_FALSE(shown.stopped);
}

TEST(Output, APartialMatchAtTheEndIsReleased) { EXPECT_EQ(show({"abcd"}, {"xab"}).text, "xab"); }

TEST(Output, AFailedMatchMayContainTheBeginningOfAnother) {
  EXPECT_EQ(show({"aab"}, {"a", "a", "a", "b", "z"}).text, "a");
  EXPECT_EQ(show({"abab!"}, {"ab", "ab", "ab!", "z"}).text, "ab");
}

TEST(Output, OverlappingStopsEndAtTheFirstThatIsComplete) {
  EXPECT_EQ(show({"abc", "b"}, {"xabc"}).text, "xa");
  EXPECT_EQ(show({"bcd", "abcd"}, {"xabcd"}).text, "x");  // end together: the longer
  EXPECT_EQ(show({"", "b"}, {"ab"}).text, "a");           // an empty one never matches
}

TEST(Output, JoinsCharactersOverTokenBordersAlsoInStops) {
  EXPECT_EQ(show({}, {"\xF0\x9F", "\x98\x80!"}).text, "\xF0\x9F\x98\x80!");
  EXPECT_EQ(show({"\xE2\x82\xAC"}, {"a\xE2", "\x82",
                                    "\xAC"
                                    "b"})
                .text,
            "a");
  EXPECT_EQ(show({"\xE2\x82\xAC"}, {"a\xE2", "\x82", "\xAD"}).text, "a\xE2\x82\xAD");
  EXPECT_EQ(show({}, {"a\xE2"}).text, "a\xEF\xBF\xBD");
}

TEST(Output, OneLogprobPerTokenAndTheirBytesJoinToTheText) {
  const Shown shown = show({"zz"}, {"fi", "z", "x", "az", "z", "q"});
  EXPECT_EQ(shown.text, "fizxa");
  EXPECT_EQ(shown.infos.size(), 4u);
  EXPECT_EQ(join_bytes(shown), shown.text);
  EXPECT_EQ(shown.infos[3].bytes, "a");
  const Shown emoji = show({}, {"\xF0\x9F", "\x98\x80", "", "!"});
  EXPECT_EQ(emoji.infos.size(), 4u);
  EXPECT_EQ(join_bytes(emoji), emoji.text);
}

TEST(Output, LogprobsComeWithTheEventThatReleasesTheirText) {
  Output output({"ab"}, true);
  const auto info = [] { return TokenInfo{}; };
  output.add(0, "x", info());
  EXPECT_EQ(output.take().logprobs.size(), 1u);
  output.add(1, "a", info());
  EXPECT_FALSE(output.has_text());
  output.add(2, "c\xE2", info());
  Event event = output.take();
  EXPECT_EQ(event.text, "ac");
  EXPECT_EQ(event.tokens, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(event.logprobs.size(), 1u);  // token 2 has a character to come
  output.add(3, "\x82\xAC", info());
  EXPECT_EQ(output.take().logprobs.size(), 2u);
}

// The answer does not depend on where tokens begin, and equals a plain search of the whole text.
TEST(Output, TokenBordersDoNotMatter) {
  std::mt19937 random(11);
  const auto word = [&](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += "abc"[random() % 3];
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::string text = word(random() % 40);
    std::vector<std::string> stops;
    for (size_t i = random() % 4; i > 0; --i) stops.push_back(word(1 + random() % 6));
    std::string expected = text;
    for (size_t end = 1; end <= text.size() && expected == text; ++end) {
      size_t longest = 0;
      for (const std::string& stop : stops) {
        if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
      }
      if (longest > 0) expected = text.substr(0, end - longest);
    }
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t n = random() % 5;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    const Shown shown = show(stops, pieces);
    EXPECT_EQ(shown.text, expected) << text;
    EXPECT_EQ(join_bytes(shown), expected) << text;
  }
}

}  // namespace
}  // namespace tempo9::engine
