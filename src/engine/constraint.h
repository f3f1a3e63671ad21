// Holds an answer to a grammar: which tokens may come next, and where the answer ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "grammar/matcher.h"
#include "grammar/token_trie.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::engine {

// A vocabulary as grammars see it. Immutable; any thread may read. Made once per model: some 40 ms for 150 thousand
// tokens.
class GrammarTokens {
 public:
  explicit GrammarTokens(const tokenizer::Tokenizer& tokenizer);

  // Of the tokens that may be sampled, without those that end a generation.
  const grammar::TokenTrie& trie() const { return trie_; }
  // Tokens that end a generation, ascending.
  const std::vector<int32_t>& ends() const { return ends_; }
  bool is_end(int32_t id) const { return std::ranges::binary_search(ends_, id); }

 private:
  grammar::TokenTrie trie_;
  std::vector<int32_t> ends_;
};

struct TokenText {
  int32_t id = 0;
  std::string_view text;
};

// One sequence's place in its grammar. One thread at a time.
class ConstraintState {
 public:
  // `tokens`, and the texts of the control tokens that are shown, outlive it. REQUIRES: constraint.grammar.
  ConstraintState(Constraint constraint, const GrammarTokens& tokens, std::vector<TokenText> shown_control);

  // Valid until the next call. At least one token is allowed.
  // Errors: kInvalidInput, reason constraint_dead_end, when neither a token nor the end can follow: limits that
  // contradict each other, or a grammar that needs bytes which no token has.
  Result<const grammar::TokenMask*> allowed_tokens();
  // Follows a token; `piece` is its text. False, and nothing has changed, when the grammar does not allow it.
  [[nodiscard]] bool accept(std::string_view piece);
  // The answer is whole and nothing but its end can follow.
  bool is_complete() const { return matcher_.can_end() && matcher_.must_end(); }

 private:
  const GrammarTokens* tokens_;
  std::vector<TokenText> shown_control_;  // that the grammar's text may be written with; few
  grammar::Matcher matcher_;
  int64_t n_accepted_ = 0;
  grammar::TokenMask allowed_;
};

}  // namespace tempo9::engine
