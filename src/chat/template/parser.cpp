#include "chat/template/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

namespace tempo9::chat {
namespace {

using Names = std::initializer_list<std::string_view>;

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

// Precedence levels of arithmetic, loosest first; ~ stands between the first two.
struct Level {
  std::array<std::pair<std::string_view, BinaryOp>, 4> operators;
};
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

class Parser {
 public:
  Parser(std::vector<Token> tokens, int max_depth) : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  Result<Body> run() {
    T9_TRY(body, parse_body({}));
    return body;
  }

 private:
  // --- tokens ---

  const Token& current() const { return tokens_[index_]; }
  const Token& next() const { return tokens_[std::min(index_ + 1, tokens_.size() - 1)]; }
  const Token& advance() { return tokens_[index_ + 1 < tokens_.size() ? index_++ : index_]; }

  bool skip_operator(std::string_view op) {
    if (!current().is_operator(op)) return false;
    advance();
    return true;
  }

  bool skip_name(std::string_view name) {
    if (!current().is_name(name)) return false;
    advance();
    return true;
  }

  std::unexpected<Error> error_at(const Position& position, std::string message,
                                  ErrorCode code = ErrorCode::kInvalidInput) const {
    return fail(at_position(position, Error(code, std::move(message))));
  }

  std::unexpected<Error> unexpected(std::string_view wanted) const {
    return error_at(current().position, fmt::format("{} expected, got {}", wanted, current().describe()));
  }

  Result<void> expect_operator(std::string_view op) {
    if (!skip_operator(op)) return unexpected(fmt::format("'{}'", op));
    return {};
  }

  Result<std::string> expect_name() {
    if (current().kind != TokenKind::kName) return unexpected("a name");
    return advance().text;
  }

  Result<void> expect_keyword(std::string_view name) {
    if (!skip_name(name)) return unexpected(fmt::format("'{}'", name));
    return {};
  }

  Result<void> expect_block_end() {
    if (current().kind != TokenKind::kBlockEnd) return unexpected("'%}'");
    advance();
    return {};
  }

  // Bounds recursion: of this parser, and of whatever walks the tree later.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  Result<void> check_depth(int height = 0) const {
    if (std::max(depth_, height) > max_depth_)
      return error_at(current().position, fmt::format("nested deeper than {} levels", max_depth_));
    return {};
  }

  // --- bodies ---

  bool is_at_end_tag(const Names& end_tags) const {
    return current().kind == TokenKind::kBlockBegin && next().kind == TokenKind::kName &&
           std::ranges::find(end_tags, next().text) != end_tags.end();
  }

  // Up to one of the end tags, whose name is then the current token; with no end tags up to the end.
  Result<Body> parse_body(const Names& end_tags) {
    Nesting nesting(*this);
    T9_TRY_VOID(check_depth());
    Body body;
    while (current().kind != TokenKind::kEnd) {
      if (is_at_end_tag(end_tags)) {
        advance();
        return body;
      }
      T9_TRY(statement, parse_statement());
      body.push_back(std::move(statement));
    }
    if (end_tags.size() != 0) return unexpected(fmt::format("'{}'", fmt::join(end_tags, "' or '")));
    return body;
  }

  // The rest of a tag, then a body, then the end tag itself.
  Result<Body> parse_block(std::string_view end_tag) {
    skip_operator(":");
    T9_TRY_VOID(expect_block_end());
    T9_TRY(body, parse_body({end_tag}));
    advance();
    T9_TRY_VOID(expect_block_end());
    return body;
  }

  // The same for one of several end tags; the tag's name is then the current token.
  Result<Body> parse_block_until(const Names& end_tags) {
    skip_operator(":");
    T9_TRY_VOID(expect_block_end());
    return parse_body(end_tags);
  }

  Result<Stmt> parse_statement() {
    const Position position = current().position;
    if (current().kind == TokenKind::kData) return Stmt{position, TextOutput{Text::from_template(advance().text)}};
    if (current().kind == TokenKind::kVariableBegin) {
      advance();
      T9_TRY(value, parse_tuple());
      if (current().kind != TokenKind::kVariableEnd) return unexpected("'}}'");
      advance();
      return Stmt{position, Output{std::move(value)}};
    }
    advance();  // {%
    return parse_tag(position);
  }

  struct Tag {
    std::string_view name;
    Result<Stmt> (Parser::*parse)(Position);
  };

  Result<Stmt> parse_tag(Position position) {
    static constexpr Tag kTags[] = {
        {"for", &Parser::parse_for},
        {"if", &Parser::parse_if},
        {"set", &Parser::parse_set},
        {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call_block},
        {"filter", &Parser::parse_filter_block},
        {"with", &Parser::parse_with},
        {"generation", &Parser::parse_generation},
        {"do", &Parser::parse_do},
        {"print", &Parser::parse_print},
        {"break", &Parser::parse_loop_control},
        {"continue", &Parser::parse_loop_control},
    };
    static constexpr std::string_view kUnsupported[] = {"include", "import",     "from",  "extends",
                                                        "block",   "autoescape", "trans", "debug"};
    if (current().kind != TokenKind::kName) return unexpected("a tag name");
    for (const Tag& tag : kTags) {
      if (!current().is_name(tag.name)) continue;
      return (this->*tag.parse)(position);
    }
    const std::string& name = current().text;
    if (std::ranges::find(kUnsupported, name) != std::end(kUnsupported))
      return error_at(position, fmt::format("the tag '{}' is not supported", name), ErrorCode::kUnsupported);
    return error_at(position, fmt::format("unknown tag '{}'", name));
  }

  // --- statements; each starts at its keyword ---

  Result<Stmt> parse_for(Position position) {
    advance();
    For loop;
    T9_TRY(target, parse_target());
    loop.target = std::move(target);
    T9_TRY_VOID(expect_keyword("in"));
    T9_TRY(iterable, parse_tuple(/*with_conditional=*/false, {"recursive"}));
    loop.iterable = std::move(iterable);
    if (skip_name("if")) {
      T9_TRY(condition, parse_expression());
      loop.condition = std::move(condition);
    }
    loop.is_recursive = skip_name("recursive");
    ++loop_depth_;
    T9_TRY(body, parse_block_until({"endfor", "else"}));
    --loop_depth_;
    loop.body = std::move(body);
    if (skip_name("else")) {
      T9_TRY(otherwise, parse_block("endfor"));
      loop.otherwise = std::move(otherwise);
    } else {
      advance();
      T9_TRY_VOID(expect_block_end());
    }
    return Stmt{position, std::move(loop)};
  }

  Result<Stmt> parse_if(Position position) {
    If node;
    do {
      advance();  // if, elif
      T9_TRY(condition, parse_tuple(/*with_conditional=*/false));
      T9_TRY(body, parse_block_until({"elif", "else", "endif"}));
      node.branches.push_back({std::move(condition), std::move(body)});
    } while (current().is_name("elif"));
    if (skip_name("else")) {
      T9_TRY(body, parse_block("endif"));
      node.branches.push_back({nullptr, std::move(body)});
    } else {
      advance();
      T9_TRY_VOID(expect_block_end());
    }
    return Stmt{position, std::move(node)};
  }

  Result<Stmt> parse_set(Position position) {
    advance();
    T9_TRY(target, parse_target());
    if (skip_operator("=")) {
      T9_TRY(value, parse_tuple());
      T9_TRY_VOID(expect_block_end());
      return Stmt{position, Set{std::move(target), std::move(value)}};
    }
    T9_TRY(filters, parse_filter_list());
    T9_TRY(body, parse_block("endset"));
    return Stmt{position, SetBlock{std::move(target), std::move(filters), std::move(body)}};
  }

  Result<Stmt> parse_macro(Position position) {
    advance();
    T9_TRY(name, expect_name());
    T9_TRY(macro, parse_macro_rest(std::move(name), "endmacro"));
    return Stmt{position, DefineMacro{std::move(macro)}};
  }

  Result<Stmt> parse_call_block(Position position) {
    advance();
    auto caller = std::make_shared<Macro>();
    caller->name = "caller";
    if (current().is_operator("(")) T9_TRY_VOID(parse_signature(*caller));
    T9_TRY(call, parse_expression());
    if (!std::holds_alternative<Call>(call->node)) return error_at(position, "'call' needs the call of a macro");
    T9_TRY_VOID(parse_macro_body(*caller, "endcall"));
    return Stmt{position, CallBlock{std::move(caller), std::move(call)}};
  }

  Result<std::shared_ptr<Macro>> parse_macro_rest(std::string name, std::string_view end_tag) {
    auto macro = std::make_shared<Macro>();
    macro->name = std::move(name);
    T9_TRY_VOID(parse_signature(*macro));
    T9_TRY_VOID(parse_macro_body(*macro, end_tag));
    return macro;
  }

  Result<void> parse_signature(Macro& macro) {
    T9_TRY_VOID(expect_operator("("));
    while (!current().is_operator(")")) {
      if (!macro.parameters.empty()) T9_TRY_VOID(expect_operator(","));
      const Position position = current().position;
      T9_TRY(name, expect_name());
      Macro::Parameter parameter{std::move(name), nullptr};
      if (skip_operator("=")) {
        T9_TRY(fallback, parse_expression());
        parameter.fallback = std::move(fallback);
      } else if (!macro.parameters.empty() && macro.parameters.back().fallback) {
        return error_at(position, "a parameter without default follows one with default");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    advance();
    return {};
  }

  Result<void> parse_macro_body(Macro& macro, std::string_view end_tag) {
    Macro* const outer = std::exchange(macro_, &macro);
    const int loop_depth = std::exchange(loop_depth_, 0);
    T9_TRY(body, parse_block(end_tag));
    macro_ = outer;
    loop_depth_ = loop_depth;
    macro.body = std::move(body);
    return {};
  }

  Result<Stmt> parse_filter_block(Position position) {
    advance();
    FilterBlock node;
    T9_TRY(first, parse_filter_call(nullptr));
    node.filters.push_back(std::move(first));
    T9_TRY(more, parse_filter_list());
    std::ranges::move(more, std::back_inserter(node.filters));
    T9_TRY(body, parse_block("endfilter"));
    node.body = std::move(body);
    return Stmt{position, std::move(node)};
  }

  Result<Stmt> parse_with(Position position) {
    advance();
    With node;
    while (current().kind != TokenKind::kBlockEnd) {
      if (!node.bindings.empty()) T9_TRY_VOID(expect_operator(","));
      T9_TRY(target, parse_single_target());
      T9_TRY_VOID(expect_operator("="));
      T9_TRY(value, parse_expression());
      node.bindings.emplace_back(std::move(target), std::move(value));
    }
    T9_TRY(body, parse_block("endwith"));
    node.body = std::move(body);
    return Stmt{position, std::move(node)};
  }

  // Marks what training takes as the model's own words; means nothing here.
  Result<Stmt> parse_generation(Position position) {
    advance();
    T9_TRY(body, parse_block("endgeneration"));
    return Stmt{position, ScopeBlock{std::move(body)}};
  }

  Result<Stmt> parse_do(Position position) {
    advance();
    T9_TRY(value, parse_tuple());
    T9_TRY_VOID(expect_block_end());
    return Stmt{position, Do{std::move(value)}};
  }

  Result<Stmt> parse_print(Position position) {
    advance();
    T9_TRY(value, parse_expression());
    T9_TRY_VOID(expect_block_end());
    return Stmt{position, Output{std::move(value)}};
  }

  Result<Stmt> parse_loop_control(Position position) {
    const bool is_break = advance().text == "break";
    if (loop_depth_ == 0)
      return error_at(position, is_break ? "'break' outside of a loop" : "'continue' outside of a loop");
    T9_TRY_VOID(expect_block_end());
    if (is_break) return Stmt{position, Break{}};
    return Stmt{position, Continue{}};
  }

  // --- targets ---

  Result<Target> parse_target() {
    Nesting nesting(*this);
    T9_TRY_VOID(check_depth());
    T9_TRY(first, parse_single_target());
    if (!current().is_operator(",")) return first;
    Target tuple;
    tuple.is_tuple = true;
    tuple.parts.push_back(std::move(first));
    while (skip_operator(",")) {
      if (current().kind != TokenKind::kName && !current().is_operator("(")) break;
      if (current().is_name("in")) break;
      T9_TRY(part, parse_single_target());
      tuple.parts.push_back(std::move(part));
    }
    return tuple;
  }

  Result<Target> parse_single_target() {
    if (skip_operator("(")) {
      T9_TRY(target, parse_target());
      T9_TRY_VOID(expect_operator(")"));
      return target;
    }
    const Position position = current().position;
    Target target;
    T9_TRY(name, expect_name());
    static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
    if (std::ranges::find(kConstants, name) != std::end(kConstants))
      return error_at(position, fmt::format("cannot assign to '{}'", name));
    target.name = std::move(name);
    if (skip_operator(".")) {
      T9_TRY(attribute, expect_name());
      target.attribute = std::move(attribute);
    }
    return target;
  }

  // --- expressions ---

  bool is_tuple_end(const Names& end_names) const {
    const TokenKind kind = current().kind;
    if (kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || current().is_operator(")")) return true;
    return kind == TokenKind::kName && std::ranges::find(end_names, current().text) != end_names.end();
  }

  // One expression, or a tuple when commas follow.
  Result<ExprPtr> parse_tuple(bool with_conditional = true, const Names& end_names = {}) {
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

  Result<ExprPtr> parse_expression(bool with_conditional = true) {
    Nesting nesting(*this);
    T9_TRY_VOID(check_depth());
    T9_TRY(node, with_conditional ? parse_conditional() : parse_logical(/*is_and=*/false));
    T9_TRY_VOID(check_depth(node->height));
    return node;
  }

  Result<ExprPtr> parse_conditional() {
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

  Result<ExprPtr> parse_logical(bool is_and) {
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

  Result<ExprPtr> parse_not() {
    if (!current().is_name("not")) return parse_comparison();
    Nesting nesting(*this);
    T9_TRY_VOID(check_depth());
    const Position position = advance().position;
    T9_TRY(operand, parse_not());
    return make_expr(position, Unary{UnaryOp::kNot, std::move(operand)});
  }

  std::optional<CompareOp> take_comparison() {
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

  Result<ExprPtr> parse_comparison() {
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

  Result<ExprPtr> parse_operand(const Level& level) {
    if (&level == &kAdditive) return parse_concat();
    if (&level == &kMultiplicative) return parse_arithmetic(kPower);
    return parse_unary();
  }

  std::optional<BinaryOp> take_operator(const Level& level) {
    for (auto [text, op] : level.operators)
      if (!text.empty() && skip_operator(text)) return op;
    return std::nullopt;
  }

  Result<ExprPtr> parse_arithmetic(const Level& level) {
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

  Result<ExprPtr> parse_concat() {
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

  // Filters bind looser than a sign only where no sign stands in front: -x|abs is -(x)|abs.
  Result<ExprPtr> parse_unary(bool with_filters = true) {
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

  // Attributes, subscripts and calls; then, if wanted, filters and tests, after which only calls may follow.
  Result<ExprPtr> parse_postfix(ExprPtr node, bool with_filters) {
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

  Result<ExprPtr> parse_attribute(ExprPtr object) {
    const Position position = advance().position;
    if (current().kind == TokenKind::kInteger) {
      ExprPtr key = make_expr(current().position, Literal{current().integer});
      advance();
      return make_expr(position, Subscript{std::move(object), std::move(key)});
    }
    T9_TRY(name, expect_name());
    return make_expr(position, Attribute{std::move(object), std::move(name)});
  }

  Result<ExprPtr> parse_slice_part() {
    if (current().is_operator(":") || current().is_operator("]")) return ExprPtr();
    return parse_expression();
  }

  Result<ExprPtr> parse_subscript(ExprPtr object) {
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

  Result<CallArguments> parse_arguments() {
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

  Result<void> parse_argument(CallArguments& arguments) {
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

  // From the name on.
  Result<FilterCall> parse_filter_call(ExprPtr input) {
    T9_TRY(name, expect_name());
    FilterCall node{std::move(input), std::move(name), nullptr, {}};
    node.filter = find_filter(node.name);
    if (current().is_operator("(")) {
      T9_TRY(arguments, parse_arguments());
      node.arguments = std::move(arguments);
    }
    return node;
  }

  Result<std::vector<FilterCall>> parse_filter_list() {
    std::vector<FilterCall> filters;
    while (skip_operator("|")) {
      T9_TRY(filter, parse_filter_call(nullptr));
      filters.push_back(std::move(filter));
    }
    return filters;
  }

  // Whether the token can begin the one argument that a test takes without parentheses.
  bool is_at_bare_argument() const {
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

  Result<TestCall> parse_test_call(ExprPtr input) {
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

  Result<ExprPtr> parse_primary() {
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

  Result<ExprPtr> parse_name() {
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

  // Adjacent literals are one.
  Result<ExprPtr> parse_string() {
    const Position position = current().position;
    std::string text;
    while (current().kind == TokenKind::kString) text += advance().text;
    return make_expr(position, Literal{std::make_shared<const String>(Text::from_template(std::move(text)), nullptr)});
  }

  Result<ExprPtr> parse_parentheses() {
    const Position position = advance().position;
    if (skip_operator(")")) return make_expr(position, ListDisplay{{}, SequenceKind::kTuple});
    T9_TRY(value, parse_tuple());
    T9_TRY_VOID(expect_operator(")"));
    return value;
  }

  Result<ExprPtr> parse_list() {
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

  Result<ExprPtr> parse_dict() {
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

  const std::vector<Token> tokens_;
  const int max_depth_;
  size_t index_ = 0;
  int depth_ = 0;
  int loop_depth_ = 0;
  Macro* macro_ = nullptr;  // the innermost one around the current token
};

}  // namespace

Result<Body> parse_template(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > limits.source_bytes)
    return fail(ErrorCode::kInvalidInput,
                fmt::format("the template has {} bytes, more than the {} allowed", source.size(), limits.source_bytes));
  T9_TRY(tokens, tokenize(source));
  return Parser(std::move(tokens), limits.depth).run();
}

}  // namespace tempo9::chat
