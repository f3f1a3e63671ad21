// A template's source as tokens. White space control ({%- -%}, trim_blocks, lstrip_blocks), raw blocks and comments are
// dealt with here: the parser sees neither.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tempo9::chat {

// From 1; columns count characters.
struct Position {
  uint32_t line = 1;
  uint32_t column = 1;
};

// "line 3, column 5: " in front of the message.
Error at_position(const Position& position, Error error);

enum class TokenKind : uint8_t {
  kData,           // text outside of tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  Position position;
  std::string text;  // data, name, string without quotes and escapes, operator
  int64_t integer = 0;
  double number = 0;

  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool is_operator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  // For messages: what stands there.
  std::string describe() const;
};

// The last token is kEnd. Errors: kInvalidInput with line and column.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace tempo9::chat
