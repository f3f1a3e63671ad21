#include "chat/template/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace tempo9::chat {

// Precedence levels of arithmetic, loosest first; ~ stands between the first two.
struct Level {
  std::array<std::pair<std::string_view, BinaryOp>, 4> operators;
};

namespace {

// The greatest height among the children of a node.
class ChildHeight {
 public:
  template <class... Children>
  static int of(const Children&... children) {
    ChildHeight height;
    (height.add(children), ...);
    return height.value_;
  }

 private:
  void add(const ExprPtr& child) {
    if (child) value_ = std::max(value_, child->height);
  }
  template <class T>
  void add(const std::vector<T>& children) {
    for (const T& child : children) add(child);
  }
  template <class First, class Second>
  void add(const std::pair<First, Second>& children) {
    add(children.first);
    add(children.second);
  }
  void add(const CallArguments& arguments) {
    add(arguments.positional);
    add(arguments.named);
    add(arguments.star);
    add(arguments.double_star);
  }
  void add(const std::string&) {}
  void add(BinaryOp) {}
  void add(CompareOp) {}

  int value_ = 0;
};

int child_height(const Literal&) { return 0; }
int child_height(const Name&) { return 0; }
int child_height(const ListDisplay& node) { return ChildHeight::of(node.items); }
int child_height(const DictDisplay& node) { return ChildHeight::of(node.entries); }
int child_height(const Attribute& node) { return ChildHeight::of(node.object); }
int child_height(const Subscript& node) { return ChildHeight::of(node.object, node.key); }
int child_height(const Slice& node) { return ChildHeight::of(node.object, node.start, node.stop, node.step); }
int child_height(const Call& node) { return ChildHeight::of(node.callee, node.arguments); }
int child_height(const FilterCall& node) { return ChildHeight::of(node.input, node.arguments); }
int child_height(const TestCall& node) { return ChildHeight::of(node.input, node.arguments); }
int child_height(const Unary& node) { return ChildHeight::of(node.operand); }
int child_height(const Arithmetic& node) { return ChildHeight::of(node.first, node.rest); }
int child_height(const Concat& node) { return ChildHeight::of(node.parts); }
int child_height(const Comparison& node) { return ChildHeight::of(node.first, node.rest); }
int child_height(const Logical& node) { return ChildHeight::of(node.operands); }
int child_height(const Conditional& node) { return ChildHeight::of(node.condition, node.value, node.otherwise); }

template <class Node>
ExprPtr make_expr(Position position, Node node) {
  const int height = child_height(node) + 1;
  return std::make_unique<Expr>(Expr{position, height, std::move(node)});
}

constexpr Level kAdditive = {{{{"+", BinaryOp::kAdd}, {"-", BinaryOp::kSubtract}}}};
constexpr Level kMultiplicative = {
    {{{"*", BinaryOp::kMultiply}, {"/", BinaryOp::kDivide}, {"//", BinaryOp::kFloorDivide}, {"%", BinaryOp::kModulo}}}};
constexpr Level kPower = {{{{"**", BinaryOp::kPower}}}};

constexpr std::array<std::pair<std::string_view, CompareOp>, 6> kComparisons = {{{"==", CompareOp::kEqual},
                                                                                 {"!=", CompareOp::kNotEqual},
                                                                                 {"<", CompareOp::kLess},
                                                                                 {"<=", CompareOp::kLessEqual},
                                                                                 {">", CompareOp::kGreater},
                                                                                 {">=", CompareOp::kGreaterEqual}}};

}  // namespace

bool ExpressionParser::is_tuple_end(const Names& end_names) const {
  const TokenKind kind = current().kind;
  if (kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || current().is_operator(")")) return true;
  return kind == TokenKind::kName && std::ranges::find(end_names, current().text) != end_names.end();
}

Result<ExprPtr> ExpressionParser::parse_tuple(bool with_conditional, const Names& end_names) {
  const Position position = current().position;
  T9_TRY(first, parse_expression(with_conditional));
  if (!current().is_operator(",")) return first;
  ListDisplay tuple{{}, SequenceKind::kTuple};
  tuple.items.push_back(std::move(first));
  while (skip_operator(",")) {
    if (is_tuple_end(end_names)) break;
    T9_TRY(item, parse_expression(with_conditional));
    tuple.items.push_back(std::move(item));
  }
  return make_expr(position, std::move(tuple));
}

Result<ExprPtr> ExpressionParser::parse_expression(bool with_conditional) {
  Nesting nesting(*this);
  T9_TRY_VOID(check_depth());
  T9_TRY(node, with_conditional ? parse_conditional() : parse_logical(/*is_and=*/false));
  T9_TRY_VOID(check_depth(node->height));
  return node;
}

Result<ExprPtr> ExpressionParser::parse_conditional() {
  T9_TRY(value, parse_logical(false));
  while (current().is_name("if")) {
    T9_TRY_VOID(check_depth(value->height));
    const Position position = advance().position;
    T9_TRY(condition, parse_logical(false));
    Conditional node{std::move(condition), std::move(value), nullptr};
    if (skip_name("else")) {
      T9_TRY(otherwise, parse_expression());
      node.otherwise = std::move(otherwise);
    }
    value = make_expr(position, std::move(node));
  }
  return value;
}

Result<ExprPtr> ExpressionParser::parse_logical(bool is_and) {
  const std::string_view keyword = is_and ? "and" : "or";
  const Position position = current().position;
  T9_TRY(first, is_and ? parse_not() : parse_logical(true));
  if (!current().is_name(keyword)) return first;
  Logical node{is_and, {}};
  node.operands.push_back(std::move(first));
  while (skip_name(keyword)) {
    T9_TRY(operand, is_and ? parse_not() : parse_logical(true));
    node.operands.push_back(std::move(operand));
  }
  return make_expr(position, std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_not() {
  if (!current().is_name("not")) return parse_comparison();
  Nesting nesting(*this);
  T9_TRY_VOID(check_depth());
  const Position position = advance().position;
  T9_TRY(operand, parse_not());
  return make_expr(position, Unary{UnaryOp::kNot, std::move(operand)});
}

std::optional<CompareOp> ExpressionParser::take_comparison() {
  for (auto [text, op] : kComparisons)
    if (skip_operator(text)) return op;
  if (skip_name("in")) return CompareOp::kIn;
  if (current().is_name("not") && next().is_name("in")) {
    advance();
    advance();
    return CompareOp::kNotIn;
  }
  return std::nullopt;
}

Result<ExprPtr> ExpressionParser::parse_comparison() {
  const Position position = current().position;
  T9_TRY(first, parse_arithmetic(kAdditive));
  Comparison node;
  while (auto op = take_comparison()) {
    T9_TRY(operand, parse_arithmetic(kAdditive));
    node.rest.emplace_back(*op, std::move(operand));
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make_expr(position, std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_operand(const Level& level) {
  if (&level == &kAdditive) return parse_concat();
  if (&level == &kMultiplicative) return parse_arithmetic(kPower);
  return parse_unary();
}

std::optional<BinaryOp> ExpressionParser::take_operator(const Level& level) {
  for (auto [text, op] : level.operators)
    if (!text.empty() && skip_operator(text)) return op;
  return std::nullopt;
}

Result<ExprPtr> ExpressionParser::parse_arithmetic(const Level& level) {
  const Position position = current().position;
  T9_TRY(first, parse_operand(level));
  Arithmetic node;
  while (auto op = take_operator(level)) {
    T9_TRY(operand, parse_operand(level));
    node.rest.emplace_back(*op, std::move(operand));
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make_expr(position, std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_concat() {
  const Position position = current().position;
  T9_TRY(first, parse_arithmetic(kMultiplicative));
  if (!current().is_operator("~")) return first;
  Concat node;
  node.parts.push_back(std::move(first));
  while (skip_operator("~")) {
    T9_TRY(part, parse_arithmetic(kMultiplicative));
    node.parts.push_back(std::move(part));
  }
  return make_expr(position, std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_unary(bool with_filters) {
  const Position position = current().position;
  ExprPtr node;
  if (current().is_operator("-") || current().is_operator("+")) {
    Nesting nesting(*this);
    T9_TRY_VOID(check_depth());
    const UnaryOp op = advance().text == "-" ? UnaryOp::kMinus : UnaryOp::kPlus;
    T9_TRY(operand, parse_unary(false));
    node = make_expr(position, Unary{op, std::move(operand)});
  } else {
    T9_TRY(primary, parse_primary());
    node = std::move(primary);
  }
  return parse_postfix(std::move(node), with_filters);
}

Result<ExprPtr> ExpressionParser::parse_postfix(ExprPtr node, bool with_filters) {
  bool is_filtered = false;
  for (;;) {
    T9_TRY_VOID(check_depth(node->height));
    const Position position = current().position;
    if (!is_filtered && current().is_operator(".")) {
      T9_TRY(attribute, parse_attribute(std::move(node)));
      node = std::move(attribute);
    } else if (!is_filtered && current().is_operator("[")) {
      T9_TRY(subscript, parse_subscript(std::move(node)));
      node = std::move(subscript);
    } else if (current().is_operator("(")) {
      T9_TRY(arguments, parse_arguments());
      node = make_expr(position, Call{std::move(node), std::move(arguments)});
    } else if (with_filters && current().is_operator("|")) {
      advance();
      T9_TRY(filter, parse_filter_call(std::move(node)));
      node = make_expr(position, std::move(filter));
      is_filtered = true;
    } else if (with_filters && current().is_name("is")) {
      T9_TRY(test, parse_test_call(std::move(node)));
      node = make_expr(position, std::move(test));
      is_filtered = true;
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExpressionParser::parse_attribute(ExprPtr object) {
  const Position position = advance().position;
  if (current().kind == TokenKind::kInteger) {
    ExprPtr key = make_expr(current().position, Literal{current().integer});
    advance();
    return make_expr(position, Subscript{std::move(object), std::move(key)});
  }
  T9_TRY(name, expect_name());
  return make_expr(position, Attribute{std::move(object), std::move(name)});
}

Result<ExprPtr> ExpressionParser::parse_slice_part() {
  if (current().is_operator(":") || current().is_operator("]")) return ExprPtr();
  return parse_expression();
}

Result<ExprPtr> ExpressionParser::parse_subscript(ExprPtr object) {
  const Position position = advance().position;
  T9_TRY(start, parse_slice_part());
  ExprPtr node;
  if (skip_operator(":")) {
    T9_TRY(stop, parse_slice_part());
    ExprPtr step;
    if (skip_operator(":")) {
      T9_TRY(given_step, parse_slice_part());
      step = std::move(given_step);
    }
    node = make_expr(position, Slice{std::move(object), std::move(start), std::move(stop), std::move(step)});
  } else {
    if (!start) return unexpected("a subscript");
    node = make_expr(position, Subscript{std::move(object), std::move(start)});
  }
  T9_TRY_VOID(expect_operator("]"));
  return node;
}

Result<CallArguments> ExpressionParser::parse_arguments() {
  T9_TRY_VOID(expect_operator("("));
  CallArguments arguments;
  bool is_first = true;
  while (!current().is_operator(")")) {
    if (!is_first) {
      T9_TRY_VOID(expect_operator(","));
      if (current().is_operator(")")) break;
    }
    is_first = false;
    T9_TRY_VOID(parse_argument(arguments));
  }
  advance();
  return arguments;
}

Result<void> ExpressionParser::parse_argument(CallArguments& arguments) {
  const Position position = current().position;
  const bool is_named = current().kind == TokenKind::kName && next().is_operator("=");
  const bool is_star = current().is_operator("*");
  const bool is_double_star = current().is_operator("**");
  if (arguments.double_star || (is_star && arguments.star) ||
      (!is_named && !is_star && !is_double_star && (arguments.star || !arguments.named.empty())))
    return error_at(position, "arguments are not in order");
  std::string name;
  if (is_named) name = advance().text;
  if (is_named || is_star || is_double_star) advance();
  T9_TRY(value, parse_expression());
  if (is_named) {
    arguments.named.emplace_back(std::move(name), std::move(value));
  } else if (is_star) {
    arguments.star = std::move(value);
  } else if (is_double_star) {
    arguments.double_star = std::move(value);
  } else {
    arguments.positional.push_back(std::move(value));
  }
  return {};
}

Result<FilterCall> ExpressionParser::parse_filter_call(ExprPtr input) {
  T9_TRY(name, expect_name());
  FilterCall node{std::move(input), std::move(name), nullptr, {}};
  node.filter = find_filter(node.name);
  if (current().is_operator("(")) {
    T9_TRY(arguments, parse_arguments());
    node.arguments = std::move(arguments);
  }
  return node;
}

Result<std::vector<FilterCall>> ExpressionParser::parse_filter_list() {
  std::vector<FilterCall> filters;
  while (skip_operator("|")) {
    T9_TRY(filter, parse_filter_call(nullptr));
    filters.push_back(std::move(filter));
  }
  return filters;
}

bool ExpressionParser::is_at_bare_argument() const {
  switch (current().kind) {
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    case TokenKind::kName:
      return !current().is_name("else") && !current().is_name("or") && !current().is_name("and") &&
             !current().is_name("if") && !current().is_name("is") && !current().is_name("in") &&
             !current().is_name("not") && !current().is_name("recursive");
    case TokenKind::kOperator:
      return current().is_operator("[") || current().is_operator("{");
    default:
      return false;
  }
}

Result<TestCall> ExpressionParser::parse_test_call(ExprPtr input) {
  advance();  // is
  TestCall node;
  node.input = std::move(input);
  node.is_negated = skip_name("not");
  T9_TRY(name, expect_name());
  node.name = std::move(name);
  node.test = find_test(node.name);
  if (current().is_operator("(")) {
    T9_TRY(arguments, parse_arguments());
    node.arguments = std::move(arguments);
  } else if (is_at_bare_argument()) {
    T9_TRY(primary, parse_primary());
    T9_TRY(argument, parse_postfix(std::move(primary), false));
    node.arguments.positional.push_back(std::move(argument));
  }
  return node;
}

Result<ExprPtr> ExpressionParser::parse_primary() {
  const Token& token = current();
  const Position position = token.position;
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kInteger:
      return make_expr(position, Literal{advance().integer});
    case TokenKind::kFloat:
      return make_expr(position, Literal{advance().number});
    case TokenKind::kOperator:
      if (token.text == "(") return parse_parentheses();
      if (token.text == "[") return parse_list();
      if (token.text == "{") return parse_dict();
      return unexpected("an expression");
    default:
      return unexpected("an expression");
  }
}

Result<ExprPtr> ExpressionParser::parse_name() {
  const Position position = current().position;
  const std::string& name = advance().text;
  if (name == "true" || name == "True") return make_expr(position, Literal{true});
  if (name == "false" || name == "False") return make_expr(position, Literal{false});
  if (name == "none" || name == "None") return make_expr(position, Literal{None()});
  if (macro_) {
    macro_->uses_varargs |= name == "varargs";
    macro_->uses_kwargs |= name == "kwargs";
    macro_->uses_caller |= name == "caller";
  }
  return make_expr(position, Name{name});
}

Result<ExprPtr> ExpressionParser::parse_string() {
  const Position position = current().position;
  std::string text;
  while (current().kind == TokenKind::kString) text += advance().text;
  return make_expr(position, Literal{std::make_shared<const String>(Text::from_template(std::move(text)), nullptr)});
}

Result<ExprPtr> ExpressionParser::parse_parentheses() {
  const Position position = advance().position;
  if (skip_operator(")")) return make_expr(position, ListDisplay{{}, SequenceKind::kTuple});
  T9_TRY(value, parse_tuple());
  T9_TRY_VOID(expect_operator(")"));
  return value;
}

Result<ExprPtr> ExpressionParser::parse_list() {
  const Position position = advance().position;
  ListDisplay list;
  while (!current().is_operator("]")) {
    if (!list.items.empty()) {
      T9_TRY_VOID(expect_operator(","));
      if (current().is_operator("]")) break;
    }
    T9_TRY(item, parse_expression());
    list.items.push_back(std::move(item));
  }
  advance();
  return make_expr(position, std::move(list));
}

Result<ExprPtr> ExpressionParser::parse_dict() {
  const Position position = advance().position;
  DictDisplay dict;
  while (!current().is_operator("}")) {
    if (!dict.entries.empty()) {
      T9_TRY_VOID(expect_operator(","));
      if (current().is_operator("}")) break;
    }
    T9_TRY(key, parse_expression());
    T9_TRY_VOID(expect_operator(":"));
    T9_TRY(value, parse_expression());
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  advance();
  return make_expr(position, std::move(dict));
}

}  // namespace tempo9::chat
