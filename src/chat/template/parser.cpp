#include "chat/template/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "chat/template/expression_parser.h"

namespace tempo9::chat {
namespace {

class TemplateParser : private ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Result<Body> run() { return parse_body({}); }

 private:
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
    Result<Stmt> (TemplateParser::*parse)(Position);
  };

  Result<Stmt> parse_tag(Position position) {
    static constexpr Tag kTags[] = {
        {"for", &TemplateParser::parse_for},
        {"if", &TemplateParser::parse_if},
        {"set", &TemplateParser::parse_set},
        {"macro", &TemplateParser::parse_macro},
        {"call", &TemplateParser::parse_call_block},
        {"filter", &TemplateParser::parse_filter_block},
        {"with", &TemplateParser::parse_with},
        {"generation", &TemplateParser::parse_generation},
        {"do", &TemplateParser::parse_do},
        {"print", &TemplateParser::parse_print},
        {"break", &TemplateParser::parse_loop_control},
        {"continue", &TemplateParser::parse_loop_control},
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

  int loop_depth_ = 0;
};

}  // namespace

Result<Body> parse_template(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > limits.source_bytes) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("the template has {} bytes, more than the {} allowed", source.size(), limits.source_bytes));
  }
  T9_TRY(tokens, tokenize(source));
  return TemplateParser(std::move(tokens), limits.depth).run();
}

}  // namespace tempo9::chat
