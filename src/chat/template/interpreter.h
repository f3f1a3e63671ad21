// Runs a parsed template.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "chat/template/ast.h"
#include "chat/template/context.h"
#include "chat/template/template.h"
#include "chat/template/value.h"

namespace tempo9::chat {

// Variables of one block. A macro keeps the scope alive in which it was defined, and all around that.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables;
  bool is_captured = false;

  Value* find(std::string_view name);
  void set(std::string_view name, Value value);
};

// A macro that was defined: its text, and the scope it sees beside its arguments.
struct MacroObject {
  const Macro* macro = nullptr;
  Scope* scope = nullptr;
};

// One rendering. REQUIRES: `context` and the tree outlive it.
class Interpreter {
 public:
  Interpreter(Context& context, int max_depth) : context_(context), meter_(context.meter()), max_depth_(max_depth) {}

  // Errors: as Template::render.
  Result<Text> run(const Body& body, const Json& variables, const std::vector<std::string>& trusted_variables);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  class DepthGuard;
  class ScopeGuard;

  void define_variables(const Json& variables, const std::vector<std::string>& trusted_variables);
  // Before each node: the limits.
  Result<void> enter();

  // --- statements ---
  Result<Flow> exec_body(const Body& body);
  Result<Flow> exec(const Stmt& statement);
  Result<Flow> exec_node(const TextOutput& node);
  Result<Flow> exec_node(const Output& node);
  Result<Flow> exec_node(const If& node);
  Result<Flow> exec_node(const For& node);
  Result<Flow> exec_node(const Set& node);
  Result<Flow> exec_node(const SetBlock& node);
  Result<Flow> exec_node(const DefineMacro& node);
  Result<Flow> exec_node(const CallBlock& node);
  Result<Flow> exec_node(const FilterBlock& node);
  Result<Flow> exec_node(const With& node);
  Result<Flow> exec_node(const ScopeBlock& node);
  Result<Flow> exec_node(const Do& node);
  Result<Flow> exec_node(const Break&) { return Flow::kBreak; }
  Result<Flow> exec_node(const Continue&) { return Flow::kContinue; }

  Result<Flow> run_loop(const For& node, const Value& iterable, int depth0);
  Result<std::vector<Value>> loop_items(const For& node, const Value& iterable);
  Result<void> assign(const Target& target, const Value& value);
  Result<void> write(const Text& text);
  // What the body writes, as text.
  Result<Text> capture(const Body& body);
  Result<Value> apply_filters(const std::vector<FilterCall>& filters, Value value);

  // --- expressions ---
  Result<Value> eval(const Expr& expr);
  Result<Value> eval_or_undefined(const ExprPtr& expr);
  Result<Value> eval_node(const Literal& node);
  Result<Value> eval_node(const Name& node);
  Result<Value> eval_node(const ListDisplay& node);
  Result<Value> eval_node(const DictDisplay& node);
  Result<Value> eval_node(const Attribute& node);
  Result<Value> eval_node(const Subscript& node);
  Result<Value> eval_node(const Slice& node);
  Result<Value> eval_node(const Call& node);
  Result<Value> eval_node(const FilterCall& node);
  Result<Value> eval_node(const TestCall& node);
  Result<Value> eval_node(const Unary& node);
  Result<Value> eval_node(const Arithmetic& node);
  Result<Value> eval_node(const Concat& node);
  Result<Value> eval_node(const Comparison& node);
  Result<Value> eval_node(const Logical& node);
  Result<Value> eval_node(const Conditional& node);

  // Adds the terms from rest[index] on, and moves `index` past them. REQUIRES: first is a string.
  Result<Value> add_to_string(const Value& first, const Arithmetic& node, size_t& index);
  Result<Value> call_expression(const Call& node, const Value* caller);
  Result<Arguments> eval_arguments(const CallArguments& arguments);
  Result<Value> call(const Value& callee, const Arguments& arguments);
  Result<Value> call_macro(const MacroObject& object, const Arguments& arguments);
  Result<void> bind_parameters(const Macro& macro, const Arguments& arguments);
  Result<Value> call_loop(const Loop& loop, const Arguments& arguments);
  Result<Value> call_filter(const FilterCall& node, const Value& input);
  const MacroObject* make_macro(const Macro& macro);
  void capture_scopes(Scope* scope);

  Context& context_;
  Meter& meter_;
  const int max_depth_;
  int depth_ = 0;
  std::deque<std::string> variable_names_;
  std::deque<Scope> scopes_;         // never shrinks: macros point into it
  std::vector<Scope*> free_scopes_;  // those of scopes_ that nobody uses
  std::deque<MacroObject> macros_;
  Scope* scope_ = nullptr;
  Text* sink_ = nullptr;
};

}  // namespace tempo9::chat
