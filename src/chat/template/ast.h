// The parsed template. Chains of one precedence level are flat, so that only real nesting nests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat/template/builtin.h"
#include "chat/template/lexer.h"
#include "chat/template/value.h"

namespace tempo9::chat {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<Stmt>;

// --- expressions ---

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExprPtr> items;
  SequenceKind kind = SequenceKind::kList;
};
struct DictDisplay {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
// object.name
struct Attribute {
  ExprPtr object;
  std::string name;
};
// object[key]
struct Subscript {
  ExprPtr object;
  ExprPtr key;
};
// object[start:stop:step]; what is left out is null.
struct Slice {
  ExprPtr object;
  ExprPtr start, stop, step;
};
struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *expr, may be null
  ExprPtr double_star;  // **expr, may be null
};
struct Call {
  ExprPtr callee;
  CallArguments arguments;
};
// input|filter(…). A filter that does not exist is an error only where it is used.
struct FilterCall {
  ExprPtr input;  // null: the text of a filter block
  std::string name;
  const Builtin* filter = nullptr;
  CallArguments arguments;
};
// input is test(…)
struct TestCall {
  ExprPtr input;
  std::string name;
  const Builtin* test = nullptr;
  bool is_negated = false;
  CallArguments arguments;
};
enum class UnaryOp : uint8_t { kNot, kMinus, kPlus };
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
enum class BinaryOp : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
// first op rest[0] op rest[1] …, from left to right.
struct Arithmetic {
  ExprPtr first;
  std::vector<std::pair<BinaryOp, ExprPtr>> rest;
};
// a ~ b ~ c
struct Concat {
  std::vector<ExprPtr> parts;
};
enum class CompareOp : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
// first op rest[0] op rest[1] …, each with its neighbour, as in Python.
struct Comparison {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
// The operand that decides is the result.
struct Logical {
  bool is_and = true;
  std::vector<ExprPtr> operands;
};
// value if condition else otherwise; without else undefined.
struct Conditional {
  ExprPtr condition;
  ExprPtr value;
  ExprPtr otherwise;  // may be null
};

struct Expr {
  Position position;
  int height = 1;  // of the tree below and including it
  std::variant<Literal, Name, ListDisplay, DictDisplay, Attribute, Subscript, Slice, Call, FilterCall, TestCall, Unary,
               Arithmetic, Concat, Comparison, Logical, Conditional>
      node;
};

// --- statements ---

// What is assigned to: a name, an attribute of a namespace, or several targets.
struct Target {
  std::string name;
  std::string attribute;  // empty: the name itself
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct TextOutput {
  Text text;
};
struct Output {
  ExprPtr value;
};
struct If {
  struct Branch {
    ExprPtr condition;  // null: else
    Body body;
  };
  std::vector<Branch> branches;
};
struct For {
  Target target;
  ExprPtr iterable;
  ExprPtr condition;  // may be null
  bool is_recursive = false;
  Body body;
  Body otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
// {% set x | filter %}…{% endset %}
struct SetBlock {
  Target target;
  std::vector<FilterCall> filters;
  Body body;
};
struct Macro {
  struct Parameter {
    std::string name;
    ExprPtr fallback;  // may be null
  };
  std::string name;
  std::vector<Parameter> parameters;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
  Body body;
};
struct DefineMacro {
  std::shared_ptr<const Macro> macro;
};
// {% call(…) macro(…) %}…{% endcall %}
struct CallBlock {
  std::shared_ptr<const Macro> caller;
  ExprPtr call;
};
struct FilterBlock {
  std::vector<FilterCall> filters;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> bindings;
  Body body;
};
// A body with a scope of its own: {% generation %}.
struct ScopeBlock {
  Body body;
};
struct Do {
  ExprPtr value;
};
struct Break {};
struct Continue {};

struct Stmt {
  Position position;
  std::variant<TextOutput, Output, If, For, Set, SetBlock, DefineMacro, CallBlock, FilterBlock, With, ScopeBlock, Do,
               Break, Continue>
      node;
};

}  // namespace tempo9::chat
