// The expressions of a template. Statements are in parser.cpp.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/template/ast.h"
#include "chat/template/token_stream.h"

namespace tempo9::chat {

using Names = std::initializer_list<std::string_view>;

// One precedence level of arithmetic.
struct Level;

class ExpressionParser : public TokenStream {
 public:
  using TokenStream::TokenStream;

  Result<ExprPtr> parse_expression(bool with_conditional = true);
  // One expression, or a tuple when commas follow.
  Result<ExprPtr> parse_tuple(bool with_conditional = true, const Names& end_names = {});
  // From the name on.
  Result<FilterCall> parse_filter_call(ExprPtr input);
  Result<std::vector<FilterCall>> parse_filter_list();

 protected:
  Macro* macro_ = nullptr;  // the innermost one around the current token: it is told which special names it uses

 private:
  bool is_tuple_end(const Names& end_names) const;
  Result<ExprPtr> parse_conditional();
  Result<ExprPtr> parse_logical(bool is_and);
  Result<ExprPtr> parse_not();
  std::optional<CompareOp> take_comparison();
  Result<ExprPtr> parse_comparison();
  Result<ExprPtr> parse_operand(const Level& level);
  std::optional<BinaryOp> take_operator(const Level& level);
  Result<ExprPtr> parse_arithmetic(const Level& level);
  Result<ExprPtr> parse_concat();
  // Filters bind looser than a sign only where no sign stands in front: -x|abs is -(x)|abs.
  Result<ExprPtr> parse_unary(bool with_filters = true);
  // Attributes, subscripts and calls; then, if wanted, filters and tests, after which only calls may follow.
  Result<ExprPtr> parse_postfix(ExprPtr node, bool with_filters);
  Result<ExprPtr> parse_attribute(ExprPtr object);
  Result<ExprPtr> parse_slice_part();
  Result<ExprPtr> parse_subscript(ExprPtr object);
  Result<CallArguments> parse_arguments();
  Result<void> parse_argument(CallArguments& arguments);
  // Whether the token can begin the one argument that a test takes without parentheses.
  bool is_at_bare_argument() const;
  Result<TestCall> parse_test_call(ExprPtr input);
  Result<ExprPtr> parse_primary();
  Result<ExprPtr> parse_name();
  // Adjacent literals are one.
  Result<ExprPtr> parse_string();
  Result<ExprPtr> parse_parentheses();
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
};

}  // namespace tempo9::chat
