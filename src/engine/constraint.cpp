#include "engine/constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tempo9::engine {
namespace {

grammar::TokenTrie make_trie(const tokenizer::Tokenizer& tokenizer) {
  std::vector<int32_t> suppressed(tokenizer.suppressed().begin(), tokenizer.suppressed().end());
  std::ranges::sort(suppressed);
  return grammar::TokenTrie(tokenizer.n_tokens(), [&](int32_t id) {
    const bool is_text = !tokenizer.is_end_of_generation(id) && !std::ranges::binary_search(suppressed, id);
    return is_text ? tokenizer.piece(id) : std::string_view();
  });
}

// The text is the client's, so it is not part of the message, which is logged.
std::unexpected<Error> dead_end(int64_t n_tokens) {
  return fail(Error(ErrorCode::kInvalidInput,
                    fmt::format("the output cannot be completed: after {} tokens its schema allows neither another "
                                "token nor the end; limits in it contradict each other",
                                n_tokens))
                  .with_reason("constraint_dead_end"));
}

}  // namespace

GrammarTokens::GrammarTokens(const tokenizer::Tokenizer& tokenizer) : trie_(make_trie(tokenizer)) {
  for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
    if (tokenizer.is_end_of_generation(id)) ends_.push_back(id);
  }
}

ConstraintState::ConstraintState(Constraint constraint, const GrammarTokens& tokens,
                                 std::vector<TokenText> shown_control)
    : tokens_(&tokens), matcher_(std::move(constraint.grammar)), allowed_(tokens.trie().n_tokens()) {
  if (constraint.allows_control) shown_control_ = std::move(shown_control);
}

Result<const grammar::TokenMask*> ConstraintState::allowed_tokens() {
  matcher_.allowed_tokens(tokens_->trie(), allowed_);
  for (const TokenText& token : shown_control_) {
    grammar::Matcher fork = matcher_;
    if (!tokens_->is_end(token.id) && fork.accept(token.text)) allowed_.set(token.id);
  }
  if (matcher_.can_end()) {
    for (const int32_t id : tokens_->ends()) allowed_.set(id);
  }
  if (allowed_.count() == 0) return dead_end(n_accepted_);
  return &allowed_;
}

bool ConstraintState::accept(std::string_view piece) {
  if (!matcher_.accept(piece)) return false;
  ++n_accepted_;
  return true;
}

}  // namespace tempo9::engine
