#include "chat/template/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/template/builtin.h"
#include "chat/template/json.h"
#include "chat/template/operators.h"

namespace tempo9::chat {
namespace {

// The innermost node with a position names the place. What raise_exception says already has its reason and stays as it
// was given.
Error locate(const Position& position, Error error) {
  if (!error.reason().empty()) return error;
  return at_position(position, std::move(error)).context("chat template").with_reason("template_error");
}

std::unexpected<Error> call_error(std::string message) { return fail(ErrorCode::kInvalidInput, std::move(message)); }

}  // namespace

Value* Scope::find(std::string_view name) {
  for (auto& [key, value] : variables)
    if (key == name) return &value;
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  if (Value* old = find(name)) {
    *old = std::move(value);
  } else {
    variables.emplace_back(name, std::move(value));
  }
}

class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter& interpreter) : interpreter_(interpreter) { ++interpreter_.depth_; }
  ~DepthGuard() { --interpreter_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Interpreter& interpreter_;
};

// Opens a scope inside `parent` and makes it the current one until the end of the block.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope* parent) : interpreter_(interpreter), outer_(interpreter.scope_) {
    open(parent);
  }
  ~ScopeGuard() {
    release();
    interpreter_.scope_ = outer_;
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

  // The next round of a loop starts with nothing set.
  void restart() {
    Scope* parent = interpreter_.scope_->parent;
    release();
    open(parent);
  }

 private:
  void open(Scope* parent) {
    auto& free_scopes = interpreter_.free_scopes_;
    if (free_scopes.empty()) {
      interpreter_.meter_.allocate(sizeof(Scope));
      free_scopes.push_back(&interpreter_.scopes_.emplace_back());
    }
    interpreter_.scope_ = free_scopes.back();
    interpreter_.scope_->parent = parent;
    free_scopes.pop_back();
  }

  void release() {
    if (interpreter_.scope_->is_captured) return;
    interpreter_.scope_->variables.clear();
    interpreter_.free_scopes_.push_back(interpreter_.scope_);
  }

  Interpreter& interpreter_;
  Scope* const outer_;
};

Result<Text> Interpreter::run(const Body& body, const Json& variables,
                              const std::vector<std::string>& trusted_variables) {
  Text output;
  sink_ = &output;
  ScopeGuard given(*this, nullptr);
  define_variables(variables, trusted_variables);
  ScopeGuard top(*this, scope_);
  T9_TRY(flow, exec_body(body));
  static_cast<void>(flow);
  if (meter_.exceeded()) return fail(meter_.error().context("chat template").with_reason("template_error"));
  return output;
}

void Interpreter::define_variables(const Json& variables, const std::vector<std::string>& trusted_variables) {
  const TrustedNames trusted(trusted_variables);
  for (const auto& [key, value] : variables.items())
    scope_->set(variable_names_.emplace_back(key), variable_from_json(context_, key, value, trusted));
}

Result<void> Interpreter::enter() {
  meter_.step();
  if (meter_.exceeded()) return fail(meter_.error());
  if (depth_ > max_depth_)
    return fail(ErrorCode::kInvalidInput, fmt::format("nested deeper than {} levels", max_depth_));
  return {};
}

// --- statements ---

Result<Interpreter::Flow> Interpreter::exec_body(const Body& body) {
  for (const Stmt& statement : body) {
    T9_TRY(flow, exec(statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec(const Stmt& statement) {
  DepthGuard guard(*this);
  auto run_node = [&]() -> Result<Flow> {
    T9_TRY_VOID(enter());
    return std::visit([&](const auto& node) { return exec_node(node); }, statement.node);
  };
  auto flow = run_node();
  if (!flow) return fail(locate(statement.position, std::move(flow).error()));
  return flow;
}

Result<Interpreter::Flow> Interpreter::exec_node(const TextOutput& node) {
  T9_TRY_VOID(write(node.text));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec_node(const Output& node) {
  T9_TRY(value, eval(*node.value));
  T9_TRY_VOID(value.is_string() ? write(value.text()) : write(to_text(value, meter_)));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec_node(const If& node) {
  for (const If::Branch& branch : node.branches) {
    if (branch.condition) {
      T9_TRY(condition, eval(*branch.condition));
      if (!is_true(condition)) continue;
    }
    return exec_body(branch.body);
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec_node(const For& node) {
  T9_TRY(iterable, eval(*node.iterable));
  return run_loop(node, iterable, 0);
}

Result<std::vector<Value>> Interpreter::loop_items(const For& node, const Value& iterable) {
  T9_TRY(items, iterate(context_, iterable));
  if (!node.condition) return items;
  std::vector<Value> wanted;
  ScopeGuard scope(*this, scope_);
  for (Value& item : items) {
    T9_TRY_VOID(assign(node.target, item));
    T9_TRY(condition, eval(*node.condition));
    if (is_true(condition)) wanted.push_back(std::move(item));
  }
  return wanted;
}

Result<Interpreter::Flow> Interpreter::run_loop(const For& node, const Value& iterable, int depth0) {
  T9_TRY(items, loop_items(node, iterable));
  Scope* const around = scope_;
  ScopeGuard scope(*this, around);
  if (items.empty()) return exec_body(node.otherwise);
  auto loop = std::make_shared<Loop>();
  loop->items = context_.list(std::move(items)).list();
  loop->depth0 = depth0;
  if (node.is_recursive) {
    capture_scopes(around);
    loop->recursive = &node;
    loop->scope = around;
  }
  for (size_t i = 0; i < loop->items->items.size(); ++i) {
    if (i > 0) scope.restart();
    loop->index0 = static_cast<int64_t>(i);
    scope_->set("loop", loop);
    T9_TRY_VOID(assign(node.target, loop->items->items[i]));
    T9_TRY(flow, exec_body(node.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec_node(const Set& node) {
  T9_TRY(value, eval(*node.value));
  T9_TRY_VOID(assign(node.target, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec_node(const SetBlock& node) {
  T9_TRY(text, capture(node.body));
  T9_TRY(value, apply_filters(node.filters, context_.string(std::move(text))));
  T9_TRY_VOID(assign(node.target, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec_node(const DefineMacro& node) {
  scope_->set(node.macro->name, make_macro(*node.macro));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec_node(const CallBlock& node) {
  const Value caller = make_macro(*node.caller);
  T9_TRY(value, call_expression(std::get<Call>(node.call->node), &caller));
  T9_TRY_VOID(write(to_text(value, meter_)));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec_node(const FilterBlock& node) {
  T9_TRY(text, capture(node.body));
  T9_TRY(value, apply_filters(node.filters, context_.string(std::move(text))));
  T9_TRY_VOID(write(to_text(value, meter_)));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::exec_node(const With& node) {
  // The values see what is outside, not each other.
  std::vector<Value> values;
  for (const auto& [target, expr] : node.bindings) {
    T9_TRY(value, eval(*expr));
    values.push_back(std::move(value));
  }
  ScopeGuard scope(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) T9_TRY_VOID(assign(node.bindings[i].first, values[i]));
  return exec_body(node.body);
}

Result<Interpreter::Flow> Interpreter::exec_node(const ScopeBlock& node) {
  ScopeGuard scope(*this, scope_);
  return exec_body(node.body);
}

Result<Interpreter::Flow> Interpreter::exec_node(const Do& node) {
  T9_TRY(value, eval(*node.value));
  static_cast<void>(value);
  return Flow::kNext;
}

Result<void> Interpreter::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    T9_TRY(items, iterate(context_, value));
    if (items.size() != target.parts.size())
      return call_error(fmt::format("{} values to unpack, not {}", target.parts.size(), items.size()));
    for (size_t i = 0; i < items.size(); ++i) T9_TRY_VOID(assign(target.parts[i], items[i]));
    return {};
  }
  if (target.attribute.empty()) {
    scope_->set(target.name, value);
    return {};
  }
  T9_TRY(object, eval_node(Name{target.name}));
  if (!object.is<Namespace*>()) return call_error("cannot assign attribute on non-namespace object");
  object.get<Namespace*>()->set(target.attribute, value);
  return {};
}

Result<void> Interpreter::write(const Text& text) {
  if (!meter_.can_hold(sink_->size() + text.size())) return fail(meter_.error());
  meter_.allocate(text.size());
  sink_->append(text);
  return {};
}

Result<Text> Interpreter::capture(const Body& body) {
  Text text;
  Text* const outer = std::exchange(sink_, &text);
  Result<Flow> flow = Flow::kNext;
  {
    ScopeGuard scope(*this, scope_);
    flow = exec_body(body);
  }
  sink_ = outer;
  meter_.release(text.size());
  if (!flow) return fail(std::move(flow).error());
  return text;
}

Result<Value> Interpreter::apply_filters(const std::vector<FilterCall>& filters, Value value) {
  for (const FilterCall& filter : filters) {
    T9_TRY(filtered, call_filter(filter, value));
    value = std::move(filtered);
  }
  return value;
}

// --- expressions ---

Result<Value> Interpreter::eval(const Expr& expr) {
  DepthGuard guard(*this);
  auto run_node = [&]() -> Result<Value> {
    T9_TRY_VOID(enter());
    return std::visit([&](const auto& node) { return eval_node(node); }, expr.node);
  };
  auto value = run_node();
  if (!value) return fail(locate(expr.position, std::move(value).error()));
  return value;
}

Result<Value> Interpreter::eval_or_undefined(const ExprPtr& expr) {
  if (!expr) return Value();
  return eval(*expr);
}

Result<Value> Interpreter::eval_node(const Literal& node) { return node.value; }

Result<Value> Interpreter::eval_node(const Name& node) {
  for (Scope* scope = scope_; scope; scope = scope->parent)
    if (const Value* value = scope->find(node.name)) return *value;
  if (const Builtin* function = find_function(node.name)) return Value(function);
  return Value::undefined(fmt::format("'{}' is undefined", node.name));
}

Result<Value> Interpreter::eval_node(const ListDisplay& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExprPtr& item : node.items) {
    T9_TRY(value, eval(*item));
    items.push_back(std::move(value));
  }
  return context_.list(std::move(items), node.kind);
}

Result<Value> Interpreter::eval_node(const DictDisplay& node) {
  auto dict = context_.dict();
  for (const auto& [key_expr, value_expr] : node.entries) {
    T9_TRY(key, eval(*key_expr));
    if (!is_hashable(key)) return call_error(fmt::format("unhashable type: '{}'", type_name(key)));
    T9_TRY(value, eval(*value_expr));
    dict->set(std::move(key), std::move(value));
  }
  return Value(std::move(dict));
}

Result<Value> Interpreter::eval_node(const Attribute& node) {
  T9_TRY(object, eval(*node.object));
  return get_attribute(context_, object, node.name);
}

Result<Value> Interpreter::eval_node(const Subscript& node) {
  T9_TRY(object, eval(*node.object));
  T9_TRY(key, eval(*node.key));
  return get_item(context_, object, key);
}

Result<Value> Interpreter::eval_node(const Slice& node) {
  T9_TRY(object, eval(*node.object));
  T9_TRY(start, eval_or_undefined(node.start));
  T9_TRY(stop, eval_or_undefined(node.stop));
  T9_TRY(step, eval_or_undefined(node.step));
  return get_slice(context_, object, start, stop, step);
}

Result<Value> Interpreter::eval_node(const Call& node) { return call_expression(node, nullptr); }

Result<Value> Interpreter::eval_node(const FilterCall& node) {
  T9_TRY(input, eval(*node.input));
  return call_filter(node, input);
}

Result<Value> Interpreter::eval_node(const TestCall& node) {
  T9_TRY(input, eval(*node.input));
  if (!node.test) return fail(ErrorCode::kUnsupported, fmt::format("there is no test named '{}'", node.name));
  T9_TRY(arguments, eval_arguments(node.arguments));
  T9_TRY(outcome, node.test->call(context_, input, arguments));
  return is_true(outcome) != node.is_negated;
}

Result<Value> Interpreter::eval_node(const Unary& node) {
  T9_TRY(operand, eval(*node.operand));
  return apply_unary(context_, node.op, operand);
}

Result<Value> Interpreter::eval_node(const Arithmetic& node) {
  T9_TRY(left, eval(*node.first));
  for (size_t i = 0; i < node.rest.size();) {
    const auto& [op, operand] = node.rest[i];
    if (op == BinaryOp::kAdd && left.is_string() && !left.is_markup()) {
      T9_TRY(sum, add_to_string(left, node, i));
      left = std::move(sum);
      continue;
    }
    T9_TRY(right, eval(*operand));
    T9_TRY(result, apply_binary(context_, op, left, right));
    left = std::move(result);
    ++i;
  }
  return left;
}

// A sum of strings is built in one piece: as pairs, its beginning would be copied once for each term.
Result<Value> Interpreter::add_to_string(const Value& first, const Arithmetic& node, size_t& index) {
  Text text = first.text();
  for (; index < node.rest.size() && node.rest[index].first == BinaryOp::kAdd; ++index) {
    T9_TRY(right, eval(*node.rest[index].second));
    if (!right.is_string() || right.is_markup()) {
      ++index;
      return apply_binary(context_, BinaryOp::kAdd, context_.string(std::move(text)), right);
    }
    if (!meter_.can_hold(text.size() + right.bytes().size())) return fail(meter_.error());
    text.append(right.text());
  }
  meter_.step_bytes(text.size());
  return context_.string(std::move(text));
}

Result<Value> Interpreter::eval_node(const Concat& node) {
  Text text;
  for (const ExprPtr& part : node.parts) {
    T9_TRY(value, eval(*part));
    text.append(to_text(value, meter_));
    if (!meter_.can_hold(text.size())) return fail(meter_.error());
  }
  meter_.step_bytes(text.size());
  return context_.string(std::move(text));
}

Result<Value> Interpreter::eval_node(const Comparison& node) {
  T9_TRY(left, eval(*node.first));
  for (const auto& [op, operand] : node.rest) {
    T9_TRY(right, eval(*operand));
    T9_TRY(holds, apply_comparison(context_, op, left, right));
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Result<Value> Interpreter::eval_node(const Logical& node) {
  Value value;
  for (const ExprPtr& operand : node.operands) {
    T9_TRY(next, eval(*operand));
    value = std::move(next);
    if (is_true(value) != node.is_and) break;
  }
  return value;
}

Result<Value> Interpreter::eval_node(const Conditional& node) {
  T9_TRY(condition, eval(*node.condition));
  if (is_true(condition)) return eval(*node.value);
  if (node.otherwise) return eval(*node.otherwise);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
}

// --- calls ---

Result<Value> Interpreter::call_filter(const FilterCall& node, const Value& input) {
  if (!node.filter) return fail(ErrorCode::kUnsupported, fmt::format("there is no filter named '{}'", node.name));
  T9_TRY(arguments, eval_arguments(node.arguments));
  return node.filter->call(context_, input, arguments);
}

Result<Arguments> Interpreter::eval_arguments(const CallArguments& expressions) {
  Arguments arguments;
  for (const ExprPtr& expr : expressions.positional) {
    T9_TRY(value, eval(*expr));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, expr] : expressions.named) {
    T9_TRY(value, eval(*expr));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (expressions.star) {
    T9_TRY(value, eval(*expressions.star));
    T9_TRY(items, iterate(context_, value));
    std::ranges::move(items, std::back_inserter(arguments.positional));
  }
  if (expressions.double_star) {
    T9_TRY(value, eval(*expressions.double_star));
    if (!value.is_dict()) return call_error(fmt::format("** needs a dict, not '{}'", type_name(value)));
    for (const auto& [key, item] : value.dict()->entries()) {
      if (!key.is_string()) return call_error("keywords must be strings");
      arguments.named.emplace_back(std::string(key.bytes()), item);
    }
  }
  return arguments;
}

Result<Value> Interpreter::call_expression(const Call& node, const Value* caller) {
  T9_TRY(callee, eval(*node.callee));
  T9_TRY(arguments, eval_arguments(node.arguments));
  if (caller) arguments.named.emplace_back("caller", *caller);
  return call(callee, arguments);
}

Result<Value> Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is<const MacroObject*>()) return call_macro(*callee.get<const MacroObject*>(), arguments);
  if (callee.is<const Builtin*>()) return callee.get<const Builtin*>()->call(context_, Value(), arguments);
  if (callee.is<std::shared_ptr<const BoundMethod>>()) {
    const BoundMethod& bound = *callee.get<std::shared_ptr<const BoundMethod>>();
    return bound.method->call(context_, bound.self, arguments);
  }
  if (callee.is<std::shared_ptr<Loop>>()) return call_loop(*callee.get<std::shared_ptr<Loop>>(), arguments);
  if (callee.is_undefined()) return fail(undefined_error(callee));
  return call_error(fmt::format("'{}' object is not callable", type_name(callee)));
}

Result<Value> Interpreter::call_macro(const MacroObject& object, const Arguments& arguments) {
  ScopeGuard scope(*this, object.scope);
  T9_TRY_VOID(bind_parameters(*object.macro, arguments));
  T9_TRY(text, capture(object.macro->body));
  return context_.string(std::move(text));
}

// Into the current scope, in order: a default may use the parameters before it.
Result<void> Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments) {
  const size_t n_parameters = macro.parameters.size();
  const size_t n_positional = arguments.positional.size();
  if (n_positional > n_parameters && !macro.uses_varargs)
    return call_error(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, n_parameters));
  std::vector<bool> is_used(arguments.named.size());
  for (size_t i = 0; i < n_parameters; ++i) {
    const Macro::Parameter& parameter = macro.parameters[i];
    auto named = std::ranges::find(arguments.named, parameter.name, &std::pair<std::string, Value>::first);
    if (i < n_positional) {
      scope_->set(parameter.name, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      is_used[static_cast<size_t>(named - arguments.named.begin())] = true;
      scope_->set(parameter.name, named->second);
    } else if (parameter.fallback) {
      T9_TRY(value, eval(*parameter.fallback));
      scope_->set(parameter.name, std::move(value));
    } else {
      scope_->set(parameter.name, Value::undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
    }
  }
  auto more = context_.dict();
  for (size_t i = 0; i < is_used.size(); ++i) {
    const auto& [name, value] = arguments.named[i];
    if (is_used[i]) continue;
    if (name == "caller" && macro.uses_caller) {
      scope_->set("caller", value);
    } else if (macro.uses_kwargs) {
      more->set(context_.string(Text::from_template(name)), value);
    } else {
      return call_error(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
    }
  }
  if (macro.uses_kwargs) scope_->set("kwargs", Value(std::move(more)));
  if (macro.uses_varargs) {
    const auto rest = arguments.positional.begin() + static_cast<ptrdiff_t>(std::min(n_parameters, n_positional));
    scope_->set("varargs", context_.tuple({rest, arguments.positional.end()}));
  }
  return {};
}

Result<Value> Interpreter::call_loop(const Loop& loop, const Arguments& arguments) {
  if (!loop.recursive) return call_error("the loop must have the 'recursive' marker to be called recursively");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) return call_error("loop() takes one argument");
  Text text;
  Text* const outer = std::exchange(sink_, &text);
  Scope* const outer_scope = std::exchange(scope_, loop.scope);
  auto flow = run_loop(*loop.recursive, arguments.positional[0], loop.depth0 + 1);
  scope_ = outer_scope;
  sink_ = outer;
  meter_.release(text.size());
  if (!flow) return fail(std::move(flow).error());
  return context_.string(std::move(text));
}

const MacroObject* Interpreter::make_macro(const Macro& macro) {
  capture_scopes(scope_);
  meter_.allocate(sizeof(MacroObject));
  return &macros_.emplace_back(MacroObject{&macro, scope_});
}

// All scopes around a captured one are captured already.
void Interpreter::capture_scopes(Scope* scope) {
  for (; scope && !scope->is_captured; scope = scope->parent) scope->is_captured = true;
}

}  // namespace tempo9::chat
