#include "chat/template/token_stream.h"

#include <fmt/format.h>

#include <algorithm>

namespace tempo9::chat {

bool TokenStream::skip_operator(std::string_view op) {
  if (!current().is_operator(op)) return false;
  advance();
  return true;
}

bool TokenStream::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  advance();
  return true;
}

Result<void> TokenStream::expect_operator(std::string_view op) {
  if (!skip_operator(op)) return unexpected(fmt::format("'{}'", op));
  return {};
}

Result<void> TokenStream::expect_keyword(std::string_view name) {
  if (!skip_name(name)) return unexpected(fmt::format("'{}'", name));
  return {};
}

Result<void> TokenStream::expect_block_end() {
  if (current().kind != TokenKind::kBlockEnd) return unexpected("'%}'");
  advance();
  return {};
}

Result<std::string> TokenStream::expect_name() {
  if (current().kind != TokenKind::kName) return unexpected("a name");
  return advance().text;
}

std::unexpected<Error> TokenStream::error_at(const Position& position, std::string message, ErrorCode code) const {
  return fail(at_position(position, Error(code, std::move(message))));
}

std::unexpected<Error> TokenStream::unexpected(std::string_view wanted) const {
  return error_at(current().position, fmt::format("{} expected, got {}", wanted, current().describe()));
}

Result<void> TokenStream::check_depth(int height) const {
  if (std::max(depth_, height) > max_depth_)
    return error_at(current().position, fmt::format("nested deeper than {} levels", max_depth_));
  return {};
}

}  // namespace tempo9::chat
