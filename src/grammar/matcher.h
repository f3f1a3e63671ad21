// Where in a grammar an output stands.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/token_trie.h"

namespace tempo9::grammar {

// One of the ways in which the output so far can be read: a node, the counter of its rule, and the calls that it will
// return to.
struct Reading {
  NodeId node = 0;
  uint32_t count = 0;
  uint32_t stack = 0;  // into Stacks

  bool operator==(const Reading&) const = default;
};

// Follows one output. A copy is a fork: cheap, and independent of the original but for memory that both share, so a
// matcher and its copies belong to one thread at a time.
class Matcher {
 public:
  // Calls nested deeper than this are not followed, which limits the nesting of JSON to about half of it.
  static constexpr uint32_t kMaxDepth = 256;

  explicit Matcher(std::shared_ptr<const Grammar> grammar);
  Matcher(const Matcher&);
  Matcher& operator=(const Matcher&);
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;
  ~Matcher();

  // Takes all of `bytes`, or, where the grammar does not allow them, none of them and returns false.
  bool accept(std::string_view bytes);
  // The output is whole: the end of the generation is allowed.
  bool can_end() const;
  // Nothing may follow: the end of the generation is all that is allowed. (With neither, the output cannot be
  // completed; limits that contradict each other do that.)
  bool must_end() const { return !can_continue(); }
  // Sets `mask`, made for the tokens of `trie`, to those whose bytes the grammar allows next. The tokens that end the
  // generation are the caller's, by can_end().
  void allowed_tokens(const TokenTrie& trie, TokenMask& mask) const;

 private:
  class Shared;  // stacks, masks found before, and buffers

  bool can_continue() const;

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<Shared> shared_;
  std::vector<Reading> readings_;
};

}  // namespace tempo9::grammar
