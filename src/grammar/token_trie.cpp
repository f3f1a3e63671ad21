#include "grammar/token_trie.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/utf8.h"
#include "grammar/automaton.h"

namespace tempo9::grammar {
namespace {

// Number of characters; 0 for what is not plain.
uint32_t count_plain_characters(std::string_view bytes) {
  if (!is_valid_utf8(bytes)) return 0;
  uint32_t n = 0;
  for (const char c : bytes) {
    if (!is_plain(c)) return 0;
    if ((static_cast<uint8_t>(c) & 0xC0) != 0x80) ++n;
  }
  return n;
}

// Where the plain characters begin with which `bytes` end; their size where it ends otherwise.
size_t find_plain_tail(std::string_view bytes) {
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t first = at;
    const bool is_character =
        decode_utf8(bytes, at) != kReplacementCharacter || bytes.substr(first, 3) == "\xEF\xBF\xBD";
    if (!is_character || !is_plain(bytes[first])) begin = at;
  }
  return begin;
}

bool is_inside_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

int64_t TokenMask::count() const {
  int64_t n = 0;
  for (const uint64_t word : words_) n += std::popcount(word);
  return n;
}

void TokenMask::add(const TokenMask& other) {
  T9_CHECK(words_.size() == other.words_.size());
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

TokenTrie::TokenTrie(int64_t n_tokens, const std::function<std::string_view(int32_t)>& bytes_of)
    : n_tokens_(n_tokens), plain_(n_tokens) {
  std::vector<Entry> entries;
  std::vector<Entry> not_plain;
  for (int32_t id = 0; id < n_tokens; ++id) {
    const std::string_view bytes = bytes_of(id);
    if (bytes.empty()) continue;
    longest_ = std::max(longest_, bytes.size());
    entries.push_back({bytes, id});
    if (const uint32_t n = count_plain_characters(bytes)) {
      plain_.set(id);
      plain_by_length_.push_back({n, id});
    } else {
      not_plain.push_back({bytes, id});
    }
  }
  std::ranges::sort(entries);
  std::ranges::sort(not_plain);
  std::ranges::sort(plain_by_length_);
  TokenMask so_far(n_tokens);
  for (const auto& [n_characters, id] : plain_by_length_) {
    while (n_characters > uint32_t{1} << plain_up_to_powers_.size()) plain_up_to_powers_.push_back(so_far);
    so_far.set(id);
  }
  all_ = build(entries);
  not_plain_ = build(not_plain);
}

void TokenTrie::add_plain_up_to(uint32_t n_characters, TokenMask& mask) const {
  const auto power = static_cast<size_t>(std::bit_width(n_characters));  // 2^(power - 1) is not above it
  uint32_t n_done = 0;
  if (power > 0 && !plain_up_to_powers_.empty()) {
    const size_t i = std::min(power, plain_up_to_powers_.size()) - 1;
    mask.add(plain_up_to_powers_[i]);
    n_done = uint32_t{1} << i;
  }
  auto next = std::ranges::upper_bound(plain_by_length_, n_done, {}, &std::pair<uint32_t, int32_t>::first);
  for (; next != plain_by_length_.end() && next->first <= n_characters; ++next) mask.set(next->second);
}

TokenTrie::Tree TokenTrie::build(std::span<const Entry> sorted) {
  Tree tree;
  std::vector<uint32_t> path;  // the node of each byte of the entry before
  std::string_view previous;
  const auto close_to = [&](size_t depth) {
    while (path.size() > depth) {
      tree.nodes_[path.back()].end = static_cast<uint32_t>(tree.nodes_.size());
      path.pop_back();
    }
  };
  for (const auto& [bytes, id] : sorted) {
    const auto [in_previous, here] = std::ranges::mismatch(previous, bytes);
    close_to(static_cast<size_t>(here - bytes.begin()));
    const auto at = static_cast<uint32_t>(tree.tokens_.size());
    while (path.size() < bytes.size()) {
      path.push_back(static_cast<uint32_t>(tree.nodes_.size()));
      tree.nodes_.push_back({static_cast<uint8_t>(bytes[path.size() - 1]), true, 0, at, at});
    }
    // Equal texts follow one another, so the tokens of a node are side by side.
    tree.tokens_.push_back(id);
    tree.nodes_[path.back()].tokens_end = at + 1;
    const size_t plain_tail = find_plain_tail(bytes);
    for (size_t behind = 1; behind < bytes.size(); ++behind) {
      if (behind < plain_tail || is_inside_character(bytes[behind]))
        tree.nodes_[path[behind - 1]].is_plain_below = false;
    }
    previous = bytes;
  }
  close_to(0);
  return tree;
}

}  // namespace tempo9::grammar
