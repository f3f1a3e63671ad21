// The tokens of a vocabulary by their bytes, so that one walk tells which of them a grammar allows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tempo9::grammar {

// One bit per token id.
class TokenMask {
 public:
  explicit TokenMask(int64_t n_tokens = 0) : words_(static_cast<size_t>(n_tokens + 63) / 64) {}

  void clear() { std::ranges::fill(words_, uint64_t{0}); }
  void set(int32_t id) { words_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64); }
  bool has(int32_t id) const {
    return (words_[static_cast<size_t>(id) / 64] >> (static_cast<size_t>(id) % 64) & 1) != 0;
  }
  int64_t count() const;
  // REQUIRES: made for as many tokens.
  void add(const TokenMask& other);
  std::span<const uint64_t> words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
};

// Immutable; any thread may read. About 20 bytes per node; a vocabulary of 150 thousand tokens has some 400 thousand.
class TokenTrie {
 public:
  // `bytes_of(id)` for ids from 0 to n_tokens - 1: what the token adds to the text. Tokens without bytes (control
  // tokens) are in no mask.
  TokenTrie(int64_t n_tokens, const std::function<std::string_view(int32_t)>& bytes_of);

  int64_t n_tokens() const { return n_tokens_; }

  // Nodes in depth-first order. The children of a node follow it, up to `end`.
  struct Node {
    uint8_t byte;
    bool is_plain_below;  // whatever tokens have behind it are whole plain characters, or nothing
    uint32_t end;
    uint32_t tokens_begin;  // of those that end here, in tokens()
    uint32_t tokens_end;
  };
  class Tree {
   public:
    std::span<const Node> nodes() const { return nodes_; }
    std::span<const int32_t> tokens(const Node& node) const {
      return std::span(tokens_).subspan(node.tokens_begin, node.tokens_end - node.tokens_begin);
    }
    // Those that end at `node` or below it.
    std::span<const int32_t> tokens_from(const Node& node) const {
      const size_t end = node.end < nodes_.size() ? nodes_[node.end].tokens_begin : tokens_.size();
      return std::span(tokens_).subspan(node.tokens_begin, end - node.tokens_begin);
    }

   private:
    friend class TokenTrie;
    std::vector<Node> nodes_;
    std::vector<int32_t> tokens_;
  };

  const Tree& all() const { return all_; }
  // Plain tokens are whole characters without quotes, backslashes, controls and '<', with which markup begins: inside a
  // string all of them are allowed, whatever comes next. Only the others need a walk there.
  const Tree& not_plain() const { return not_plain_; }
  const TokenMask& plain() const { return plain_; }
  // Those of at most so many characters.
  void add_plain_up_to(uint32_t n_characters, TokenMask& mask) const;
  uint32_t longest_plain() const { return plain_by_length_.empty() ? 0 : plain_by_length_.back().first; }
  // In bytes, over all tokens.
  size_t longest() const { return longest_; }

 private:
  using Entry = std::pair<std::string_view, int32_t>;
  static Tree build(std::span<const Entry> sorted);

  int64_t n_tokens_;
  Tree all_;
  Tree not_plain_;
  TokenMask plain_;
  size_t longest_ = 0;
  std::vector<std::pair<uint32_t, int32_t>> plain_by_length_;  // characters and id, shortest first
  // [i]: those of at most 2^i characters, to begin with.
  std::vector<TokenMask> plain_up_to_powers_;
};

}  // namespace tempo9::grammar
