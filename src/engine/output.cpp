#include "engine/output.h"

#include <algorithm>
#include <utility>

namespace tempo9::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    std::vector<size_t> border(stop.size() + 1, 0);
    for (size_t n = 1, matched = 0; n < stop.size(); ++n) {
      while (matched > 0 && stop[n] != stop[matched]) matched = border[matched];
      if (stop[n] == stop[matched]) ++matched;
      border[n + 1] = matched;
    }
    patterns_.push_back({.text = std::move(stop), .border = std::move(border)});
  }
}

size_t StopMatcher::feed(char byte) {
  size_t longest = 0;
  for (Pattern& p : patterns_) {
    if (p.matched == p.text.size()) p.matched = p.border[p.matched];
    while (p.matched > 0 && byte != p.text[p.matched]) p.matched = p.border[p.matched];
    if (byte == p.text[p.matched]) ++p.matched;
    if (p.matched == p.text.size()) longest = std::max(longest, p.matched);
  }
  return longest;
}

size_t StopMatcher::n_partial() const {
  size_t longest = 0;
  for (const Pattern& p : patterns_) longest = std::max(longest, p.matched);
  return longest;
}

bool Output::add(int32_t token, std::string_view piece, TokenInfo info) {
  tokens_.push_back(token);
  const size_t begin = n_joined_;
  std::string text;
  joiner_.feed(piece, text);
  if (logprobs_) {
    info.bytes = piece;
    const size_t end = begin + text.size() + (joiner_.holds_bytes() ? 1 : 0);
    infos_.push_back({.info = std::move(info), .begin = begin, .end = end});
  }
  return feed(text);
}

bool Output::finish() {
  if (!stopped_) {
    std::string text;
    joiner_.finish(text);
    feed(text);
  }
  finished_ = true;
  return stopped_;
}

bool Output::feed(std::string_view text) {
  for (const char byte : text) {
    const size_t length = matcher_.feed(byte);
    pending_ += byte;
    ++n_joined_;
    if (length == 0) continue;
    pending_.resize(pending_.size() - length);
    n_joined_ -= length;
    stopped_ = true;
    return true;
  }
  return false;
}

size_t Output::n_visible() const { return stopped_ || finished_ ? n_joined_ : n_joined_ - matcher_.n_partial(); }

// Entries whose text is complete. Where the answer was cut, so are the bytes of the token there; tokens that lie wholly
// behind the cut have no part in the answer.
void Output::release_infos(std::vector<TokenInfo>& out) {
  while (!infos_.empty()) {
    PendingInfo& next = infos_.front();
    const bool is_last = stopped_ || finished_;
    if (next.end > n_shown_ && !is_last) return;
    if (stopped_ && next.begin >= n_joined_) return infos_.clear();
    if (stopped_ && next.end > n_joined_) {
      std::string& bytes = next.info.bytes;
      bytes.resize(std::min(bytes.size(), n_joined_ - next.begin));
    }
    out.push_back(std::move(next.info));
    infos_.pop_front();
  }
}

Event Output::take() {
  Event event;
  const size_t n_new = n_visible() - n_shown_;
  event.text = pending_.substr(0, n_new);
  pending_.erase(0, n_new);
  n_shown_ += n_new;
  event.tokens = std::exchange(tokens_, {});
  release_infos(event.logprobs);
  return event;
}

}  // namespace tempo9::engine
