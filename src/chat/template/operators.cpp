#include "chat/template/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "chat/template/builtin.h"
#include "chat/template/format.h"
#include "chat/template/strings.h"

namespace tempo9::chat {
namespace {

std::unexpected<Error> type_error(std::string message) { return fail(ErrorCode::kInvalidInput, std::move(message)); }

std::string_view symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSubtract:
      return "-";
    case BinaryOp::kMultiply:
      return "*";
    case BinaryOp::kDivide:
      return "/";
    case BinaryOp::kFloorDivide:
      return "//";
    case BinaryOp::kModulo:
      return "%";
    case BinaryOp::kPower:
      return "**";
  }
  return "?";
}

std::unexpected<Error> unsupported_operands(BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::kAdd && (left.is_string() || (left.is_list() && left.list()->kind <= SequenceKind::kTuple)))
    return type_error(fmt::format("can only concatenate {0} (not \"{1}\") to {0}", type_name(left), type_name(right)));
  return type_error(
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(left), type_name(right)));
}

std::unexpected<Error> overflow() { return type_error("the result does not fit an integer of 64 bits"); }

// --- numbers ---

Result<int64_t> power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return result;
}

int64_t floor_divide(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

Result<Value> integer_arithmetic(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  const bool divides = op == BinaryOp::kDivide || op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo;
  if (divides && b == 0) return type_error("division by zero");
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return overflow();
      return result;
    case BinaryOp::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return overflow();
      return result;
    case BinaryOp::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return overflow();
      return result;
    case BinaryOp::kDivide:
      return static_cast<double>(a) / static_cast<double>(b);
    case BinaryOp::kFloorDivide:
      if (b == -1 && a == std::numeric_limits<int64_t>::min()) return overflow();
      return floor_divide(a, b);
    case BinaryOp::kModulo:
      return b == -1 ? 0 : a - floor_divide(a, b) * b;
    case BinaryOp::kPower: {
      if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
      T9_TRY(value, power(a, b));
      return value;
    }
  }
  return overflow();
}

Result<Value> float_arithmetic(BinaryOp op, double a, double b) {
  const bool divides = op == BinaryOp::kDivide || op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo;
  if (divides && b == 0) return type_error("division by zero");
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSubtract:
      return a - b;
    case BinaryOp::kMultiply:
      return a * b;
    case BinaryOp::kDivide:
      return a / b;
    case BinaryOp::kFloorDivide:
      return std::floor(a / b);
    case BinaryOp::kModulo:
      return a - std::floor(a / b) * b;
    case BinaryOp::kPower:
      return std::pow(a, b);
  }
  return overflow();
}

// --- sequences ---

Result<Value> join_lists(Context& context, const Value& left, const Value& right) {
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  context.meter().step(static_cast<int64_t>(items.size()));
  return context.list(std::move(items), left.list()->kind);
}

Result<Value> repeat(Context& context, const Value& sequence, int64_t count) {
  const auto n = static_cast<size_t>(std::max<int64_t>(count, 0));
  const size_t unit = sequence.is_string() ? sequence.bytes().size() : sequence.items().size() * sizeof(Value);
  if (unit == 0 || n == 0) {
    if (sequence.is_string()) return context.string(Text());
    return context.list({}, sequence.list()->kind);
  }
  if (n > context.meter().max_text_bytes() / unit + 1 || !context.meter().can_hold(unit * n))
    return fail(ErrorCode::kInvalidInput, "the repeated value would be too long");
  context.meter().step(static_cast<int64_t>(n));
  if (sequence.is_string()) {
    Text text;
    for (size_t i = 0; i < n; ++i) text.append(sequence.text());
    return context.string(std::move(text));
  }
  std::vector<Value> items;
  for (size_t i = 0; i < n; ++i) items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  return context.list(std::move(items), sequence.list()->kind);
}

bool is_repeatable(const Value& value) {
  return value.is_string() || (value.is_list() && value.list()->kind <= SequenceKind::kTuple);
}

Result<Value> add_strings(Context& context, const Value& left, const Value& right) {
  const size_t size = left.bytes().size() + right.bytes().size();
  if (!context.meter().can_hold(size)) return fail(context.meter().error());
  context.meter().step_bytes(size);
  Text text;
  text.bytes.reserve(size);
  const bool is_markup = left.is_markup() || right.is_markup();
  text.append(is_markup && !left.is_markup() ? escape(left.text()) : left.text());
  text.append(is_markup && !right.is_markup() ? escape(right.text()) : right.text());
  return is_markup ? context.markup(std::move(text)) : context.string(std::move(text));
}

// --- subscripts ---

// "'dict object'", "'None'": as Jinja names what lacks an attribute.
std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  return fmt::format("{} object", type_name(value));
}

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
}

Value no_element(const Value& object, const Value& key, Meter& meter) {
  if (key.is_string()) return no_attribute(object, key.bytes());
  std::string repr;
  append_repr(key, meter, repr);
  return Value::undefined(fmt::format("{} has no element {}", object_name(object), repr));
}

Value loop_attribute(const Loop& loop, std::string_view name) {
  const auto n = static_cast<int64_t>(loop.items->items.size());
  const int64_t i = loop.index0;
  if (name == "index0") return i;
  if (name == "index") return i + 1;
  if (name == "first") return i == 0;
  if (name == "last") return i + 1 == n;
  if (name == "length") return n;
  if (name == "revindex") return n - i;
  if (name == "revindex0") return n - i - 1;
  if (name == "depth0") return loop.depth0;
  if (name == "depth") return loop.depth0 + 1;
  if (name == "previtem") {
    if (i == 0 || i > n) return Value::undefined("there is no previous item");
    return loop.items->items[static_cast<size_t>(i - 1)];
  }
  if (name == "nextitem") {
    if (i + 1 >= n) return Value::undefined("there is no next item");
    return loop.items->items[static_cast<size_t>(i + 1)];
  }
  return Value();
}

// Character `index`, from the end when negative; an empty range when there is none.
std::pair<size_t, size_t> char_range(std::string_view text, int64_t index) {
  if (index < 0) index += count_chars(text);
  if (index < 0) return {0, 0};
  const size_t begin = char_offset(text, index);
  return {begin, begin < text.size() ? begin + char_offset(text.substr(begin), 1) : begin};
}

std::optional<Value> element_at(Context& context, const Value& object, int64_t index) {
  if (object.is_string()) {
    context.meter().step_bytes(object.bytes().size());
    auto [begin, end] = char_range(object.bytes(), index);
    if (begin == end) return std::nullopt;
    return context.string(object.text().slice(begin, end));
  }
  if (!object.is_list() || !object.list()->is_indexable()) return std::nullopt;
  const auto n = static_cast<int64_t>(object.items().size());
  if (index < 0) index += n;
  if (index < 0 || index >= n) return std::nullopt;
  return object.items()[static_cast<size_t>(index)];
}

struct SliceBounds {
  int64_t start, stop, step;
};

Result<std::optional<int64_t>> slice_part(const Value& value) {
  if (value.is_undefined() || value.is_none()) return std::nullopt;
  if (!value.is_integral()) return type_error("slice indices must be integers or None");
  return value.integer();
}

// Python's slice.indices(n).
SliceBounds resolve_bounds(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step, int64_t n) {
  const int64_t lowest = step < 0 ? -1 : 0;
  const int64_t highest = step < 0 ? n - 1 : n;
  auto resolve = [&](std::optional<int64_t> given, int64_t fallback) {
    if (!given) return fallback;
    const int64_t index = *given < 0 ? std::max(*given, -n - 1) + n : *given;
    return std::clamp(index, lowest, highest);
  };
  return {resolve(start, step < 0 ? highest : lowest), resolve(stop, step < 0 ? lowest : highest), step};
}

template <class Take>
void for_each_index(const SliceBounds& bounds, Take take) {
  // A step larger than the sequence takes one element, whatever its size: no sum may overflow.
  const int64_t step = std::clamp<int64_t>(bounds.step, -(int64_t{1} << 40), int64_t{1} << 40);
  for (int64_t i = bounds.start; step > 0 ? i < bounds.stop : i > bounds.stop; i += step) take(i);
}

Value slice_string(Context& context, const Text& text, const SliceBounds& bounds) {
  if (bounds.step == 1) {
    const size_t begin = char_offset(text.bytes, bounds.start);
    const int64_t n = std::max<int64_t>(bounds.stop - bounds.start, 0);
    const size_t end = begin + char_offset(std::string_view(text.bytes).substr(begin), n);
    return context.string(text.slice(begin, end));
  }
  std::vector<size_t> offsets;
  for (size_t pos = 0; pos < text.size(); decode_utf8(text.bytes, pos)) offsets.push_back(pos);
  offsets.push_back(text.size());
  Text result;
  for_each_index(bounds, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    result.append_slice(text, offsets[at], offsets[at + 1]);
  });
  return context.string(std::move(result));
}

}  // namespace

Result<Value> apply_binary(Context& context, BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::kModulo && left.is_string()) return format_percent(context, left, right);
  for (const Value* side : {&left, &right})
    if (side->is_undefined()) return fail(undefined_error(*side));
  if (left.is_integral() && right.is_integral()) return integer_arithmetic(op, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return float_arithmetic(op, left.number(), right.number());
  if (op == BinaryOp::kAdd && left.is_string() && right.is_string()) return add_strings(context, left, right);
  if (op == BinaryOp::kAdd && left.is_list() && right.is_list() && left.list()->kind == right.list()->kind &&
      left.list()->kind <= SequenceKind::kTuple)
    return join_lists(context, left, right);
  if (op == BinaryOp::kMultiply && is_repeatable(left) && right.is_integral())
    return repeat(context, left, right.integer());
  if (op == BinaryOp::kMultiply && left.is_integral() && is_repeatable(right))
    return repeat(context, right, left.integer());
  return unsupported_operands(op, left, right);
}

Result<Value> apply_unary(Context&, UnaryOp op, const Value& operand) {
  if (op == UnaryOp::kNot) return !is_true(operand);
  if (operand.is_undefined()) return fail(undefined_error(operand));
  if (!operand.is_number())
    return type_error(
        fmt::format("bad operand type for unary {}: '{}'", op == UnaryOp::kMinus ? "-" : "+", type_name(operand)));
  if (op == UnaryOp::kPlus) return operand.is_integral() ? Value(operand.integer()) : operand;
  if (operand.is<double>()) return -operand.number();
  if (operand.integer() == std::numeric_limits<int64_t>::min()) return overflow();
  return -operand.integer();
}

Result<bool> apply_comparison(Context& context, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::kEqual:
      return is_equal(left, right, context.meter());
    case CompareOp::kNotEqual:
      return !is_equal(left, right, context.meter());
    case CompareOp::kIn:
      return contains(context, right, left);
    case CompareOp::kNotIn: {
      T9_TRY(is_in, contains(context, right, left));
      return !is_in;
    }
    default:
      break;
  }
  T9_TRY(order, compare(left, right, context.meter()));
  switch (op) {
    case CompareOp::kLess:
      return order < 0;
    case CompareOp::kLessEqual:
      return order <= 0;
    case CompareOp::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

Result<bool> contains(Context& context, const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (container.is_string()) {
    if (!item.is_string())
      return type_error(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    context.meter().step_bytes(container.bytes().size());
    return container.bytes().find(item.bytes()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    if (!is_hashable(item)) return type_error(fmt::format("unhashable type: '{}'", type_name(item)));
    return container.dict()->find(item) != nullptr;
  }
  if (!container.is_list())
    return type_error(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  T9_TRY(items, iterate(context, container));
  return std::ranges::any_of(items, [&](const Value& other) { return is_equal(other, item, context.meter()); });
}

Result<Value> get_attribute(Context& context, const Value& object, std::string_view name) {
  if (object.is_undefined()) return fail(undefined_error(object));
  if (object.is<Namespace*>()) {
    const Value* value = object.get<Namespace*>()->find(name);
    return value ? *value : no_attribute(object, name);
  }
  if (const Builtin* method = find_method(object, name)) return context.bind(object, *method);
  if (object.is<std::shared_ptr<Loop>>()) {
    Value field = loop_attribute(*object.get<std::shared_ptr<Loop>>(), name);
    if (!field.is_undefined() || field.get<Undefined>().problem) return field;
  }
  if (object.is_dict())
    if (const Value* value = object.dict()->find(name)) return *value;
  return no_attribute(object, name);
}

Result<Value> get_item(Context& context, const Value& object, const Value& key) {
  if (object.is_undefined()) return fail(undefined_error(object));
  if (object.is_dict() && is_hashable(key)) {
    if (key.is_string()) context.meter().step_bytes(key.bytes().size());
    if (const Value* value = object.dict()->find(key)) return *value;
  }
  if (key.is_integral())
    if (auto element = element_at(context, object, key.integer())) return *element;
  if (!key.is_string()) return no_element(object, key, context.meter());
  if (object.is_dict()) {
    if (const Builtin* method = find_method(object, key.bytes())) return context.bind(object, *method);
    return no_element(object, key, context.meter());
  }
  return get_attribute(context, object, key.bytes());
}

Result<Value> get_slice(Context& context, const Value& object, const Value& start, const Value& stop,
                        const Value& step) {
  if (object.is_undefined()) return fail(undefined_error(object));
  const bool is_sequence = object.is_string() || (object.is_list() && object.list()->is_indexable());
  if (!is_sequence) return Value::undefined(fmt::format("{} cannot be sliced", object_name(object)));
  T9_TRY(first, slice_part(start));
  T9_TRY(last, slice_part(stop));
  T9_TRY(stride, slice_part(step));
  if (stride == 0) return type_error("slice step cannot be zero");
  const int64_t n = object.is_string() ? count_chars(object.bytes()) : static_cast<int64_t>(object.items().size());
  const SliceBounds bounds = resolve_bounds(first, last, stride.value_or(1), n);
  if (object.is_string()) {
    context.meter().step_bytes(object.bytes().size());
    return slice_string(context, object.text(), bounds);
  }
  std::vector<Value> items;
  for_each_index(bounds, [&](int64_t i) { items.push_back(object.items()[static_cast<size_t>(i)]); });
  context.meter().step(static_cast<int64_t>(items.size()));
  return context.list(std::move(items), object.list()->kind);
}

Result<std::vector<Value>> iterate(Context& context, const Value& value) {
  if (value.is_undefined()) return std::vector<Value>();
  std::vector<Value> items;
  if (value.is_string()) {
    const Text& text = value.text();
    // Each character becomes a value that takes far more memory than the character.
    context.meter().step(static_cast<int64_t>(text.size()));
    if (context.meter().exceeded()) return fail(context.meter().error());
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      decode_utf8(text.bytes, pos);
      items.push_back(context.string(text.slice(begin, pos)));
      if (context.meter().exceeded()) return fail(context.meter().error());
    }
    return items;
  }
  if (value.is_dict()) {
    for (const auto& [key, unused] : value.dict()->entries()) items.push_back(key);
  } else if (value.is_list()) {
    List& list = *value.list();
    if (!list.is_consumed) items = list.items;
    if (!list.has_length()) list.is_consumed = true;
  } else {
    return type_error(fmt::format("'{}' object is not iterable", type_name(value)));
  }
  context.meter().step(static_cast<int64_t>(items.size()));
  return items;
}

Result<int64_t> length_of(Context& context, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_string()) {
    context.meter().step_bytes(value.bytes().size());
    return count_chars(value.bytes());
  }
  if (value.is_dict()) return static_cast<int64_t>(value.dict()->entries().size());
  if (value.is_list() && value.list()->has_length()) return static_cast<int64_t>(value.items().size());
  return type_error(fmt::format("object of type '{}' has no len()", type_name(value)));
}

}  // namespace tempo9::chat
