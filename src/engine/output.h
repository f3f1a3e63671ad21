// From sampled tokens to the text that a client may see: joins characters, holds back what may become a stop string,
// and keeps tokens and log-probabilities in step with the text.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "engine/request.h"

namespace tempo9::engine {

// Looks for several strings at once in text that comes byte by byte: Knuth, Morris, Pratt for each, so the work per
// byte does not depend on their lengths. Empty strings are ignored.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  // Length of the longest stop string that ends with this byte; 0 when none does.
  size_t feed(char byte);
  // Bytes at the end of what was fed that may be the beginning of a stop string.
  size_t n_partial() const;

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  // border[n]: longest proper prefix of text[0, n) that is also its suffix
    size_t matched = 0;
  };
  std::vector<Pattern> patterns_;
};

// One per sequence. The stop string whose last byte comes first ends the answer, whatever the token borders are; of
// several that end together the longest.
class Output {
 public:
  Output(std::vector<std::string> stops, bool logprobs) : matcher_(std::move(stops)), logprobs_(logprobs) {}

  // Appends a token of the answer; `piece` are its bytes. True when a stop string is now complete: the answer ends just
  // before it.
  bool add(int32_t token, std::string_view piece, TokenInfo info);
  // The answer has ended: nothing is held back any more. An incomplete character becomes U+FFFD. True when that
  // completes a stop string.
  bool finish();
  // Text can be shown that take() has not returned.
  bool has_text() const { return n_shown_ < n_visible(); }
  // The text released since the last call with its tokens and log-probabilities.
  Event take();

 private:
  // A token whose log-probability waits for its text.
  struct PendingInfo {
    TokenInfo info;
    size_t begin = 0;  // the token's text in the joined text
    size_t end = 0;    // where it ends, or one byte more while the joiner holds an incomplete character
  };

  bool feed(std::string_view text);
  size_t n_visible() const;
  void release_infos(std::vector<TokenInfo>& out);

  StopMatcher matcher_;
  Utf8Joiner joiner_;
  bool logprobs_;
  bool stopped_ = false;
  bool finished_ = false;
  std::string pending_;  // joined text behind the first n_shown_ bytes
  size_t n_shown_ = 0;   // bytes that take() has returned
  size_t n_joined_ = 0;  // bytes joined so far; where the stop string begins once stopped_
  std::vector<int32_t> tokens_;
  std::deque<PendingInfo> infos_;
};

}  // namespace tempo9::engine
