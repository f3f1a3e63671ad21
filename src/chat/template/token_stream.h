// The tokens of a template as the parser walks through them, with its errors and its bound on nesting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/template/lexer.h"

namespace tempo9::chat {

class TokenStream {
 public:
  // REQUIRES: the last token is kEnd.
  TokenStream(std::vector<Token> tokens, int max_depth) : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  const Token& current() const { return tokens_[index_]; }
  const Token& next() const { return tokens_[index_ + 1 < tokens_.size() ? index_ + 1 : index_]; }
  // Returns the current token and moves on; stays at the end.
  const Token& advance() { return tokens_[index_ + 1 < tokens_.size() ? index_++ : index_]; }

  // True, and past it, when the current token is this one.
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);

  Result<void> expect_operator(std::string_view op);
  Result<void> expect_keyword(std::string_view name);
  Result<void> expect_block_end();
  Result<std::string> expect_name();

  std::unexpected<Error> error_at(const Position& position, std::string message,
                                  ErrorCode code = ErrorCode::kInvalidInput) const;
  // "… expected, got …", at the current token.
  std::unexpected<Error> unexpected(std::string_view wanted) const;

  // Alive while the parser is one level further down.
  class Nesting {
   public:
    explicit Nesting(TokenStream& stream) : stream_(stream) { ++stream_.depth_; }
    ~Nesting() { --stream_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    TokenStream& stream_;
  };

  // An error when the parser, or a tree of this height, is too deep: what walks the tree later recurses.
  Result<void> check_depth(int height = 0) const;

 private:
  const std::vector<Token> tokens_;
  const int max_depth_;
  size_t index_ = 0;
  int depth_ = 0;
};

}  // namespace tempo9::chat
