// The tests: what stands behind `is`. The table is at the end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "chat/template/builtin.h"
#include "chat/template/operators.h"

namespace tempo9::chat {
namespace {

template <bool (*kHolds)(const Value&)>
Result<Value> test_kind(Context&, const Value& self, const Bound&) {
  return kHolds(self);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
bool is_boolean(const Value& value) { return value.is<bool>(); }
bool is_true_literal(const Value& value) { return value.is<bool>() && value.get<bool>(); }
bool is_false_literal(const Value& value) { return value.is<bool>() && !value.get<bool>(); }
bool is_integer(const Value& value) { return value.is<int64_t>(); }
bool is_float(const Value& value) { return value.is<double>(); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_callable(const Value& value) { return value.is_callable(); }

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_list() || value.is_dict() ||
         value.is<std::shared_ptr<Loop>>();
}

// Has a length and takes subscripts.
bool is_sequence(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_dict() ||
         (value.is_list() && value.list()->is_indexable());
}

bool is_never(const Value&) { return false; }

template <CompareOp kOp>
Result<Value> test_comparison(Context& context, const Value& self, const Bound& args) {
  T9_TRY(holds, apply_comparison(context, kOp, self, *args[0]));
  return holds;
}

Result<Value> test_same_as(Context& context, const Value& self, const Bound& args) {
  if (self.storage().index() != args[0]->storage().index()) return false;
  if (self.is_list()) return self.list() == args[0]->list();
  if (self.is_dict()) return self.dict() == args[0]->dict();
  return is_equal(self, *args[0], context.meter());
}

Result<bool> is_remainder(Context& context, const Value& self, const Value& divisor, int64_t remainder) {
  T9_TRY(rest, apply_binary(context, BinaryOp::kModulo, self, divisor));
  return is_equal(rest, Value(remainder), context.meter());
}

template <int kRemainder>
Result<Value> test_parity(Context& context, const Value& self, const Bound&) {
  T9_TRY(holds, is_remainder(context, self, Value(2), kRemainder));
  return holds;
}

Result<Value> test_divisible_by(Context& context, const Value& self, const Bound& args) {
  T9_TRY(holds, is_remainder(context, self, *args[0], 0));
  return holds;
}

// Whether there are letters with case, and all have this one.
template <std::string (*kChange)(std::string_view), std::string (*kOpposite)(std::string_view)>
Result<Value> test_case(Context& context, const Value& self, const Bound&) {
  const Text text = to_text(self, context.meter());
  context.meter().step_bytes(text.size() * 16);
  return kChange(text.bytes) == text.bytes && kOpposite(text.bytes) != text.bytes;
}

Result<Value> test_filter(Context&, const Value& self, const Bound&) {
  return self.is_string() && find_filter(self.bytes()) != nullptr;
}

Result<Value> test_test(Context&, const Value& self, const Bound&) {
  return self.is_string() && find_test(self.bytes()) != nullptr;
}

constexpr Builtin kTests[] = {
    {"!=", "other", 1, test_comparison<CompareOp::kNotEqual>},
    {"<", "other", 1, test_comparison<CompareOp::kLess>},
    {"<=", "other", 1, test_comparison<CompareOp::kLessEqual>},
    {"==", "other", 1, test_comparison<CompareOp::kEqual>},
    {">", "other", 1, test_comparison<CompareOp::kGreater>},
    {">=", "other", 1, test_comparison<CompareOp::kGreaterEqual>},
    {"boolean", "", 0, test_kind<is_boolean>},
    {"callable", "", 0, test_kind<is_callable>},
    {"defined", "", 0, test_kind<is_defined>},
    {"divisibleby", "num", 1, test_divisible_by},
    {"eq", "other", 1, test_comparison<CompareOp::kEqual>},
    {"equalto", "other", 1, test_comparison<CompareOp::kEqual>},
    {"escaped", "", 0, test_kind<is_never>},
    {"even", "", 0, test_parity<0>},
    {"false", "", 0, test_kind<is_false_literal>},
    {"filter", "", 0, test_filter},
    {"float", "", 0, test_kind<is_float>},
    {"ge", "other", 1, test_comparison<CompareOp::kGreaterEqual>},
    {"greaterthan", "other", 1, test_comparison<CompareOp::kGreater>},
    {"gt", "other", 1, test_comparison<CompareOp::kGreater>},
    {"in", "seq", 1, test_comparison<CompareOp::kIn>},
    {"integer", "", 0, test_kind<is_integer>},
    {"iterable", "", 0, test_kind<is_iterable>},
    {"le", "other", 1, test_comparison<CompareOp::kLessEqual>},
    {"lessthan", "other", 1, test_comparison<CompareOp::kLess>},
    {"lower", "", 0, test_case<to_lower, to_upper>},
    {"lt", "other", 1, test_comparison<CompareOp::kLess>},
    {"mapping", "", 0, test_kind<is_mapping>},
    {"ne", "other", 1, test_comparison<CompareOp::kNotEqual>},
    {"none", "", 0, test_kind<is_none>},
    {"number", "", 0, test_kind<is_number>},
    {"odd", "", 0, test_parity<1>},
    {"sameas", "other", 1, test_same_as},
    {"sequence", "", 0, test_kind<is_sequence>},
    {"string", "", 0, test_kind<is_string>},
    {"test", "", 0, test_test},
    {"true", "", 0, test_kind<is_true_literal>},
    {"undefined", "", 0, test_kind<is_undefined>},
    {"upper", "", 0, test_case<to_upper, to_lower>},
};

}  // namespace

std::span<const Builtin> all_tests() { return kTests; }

const Builtin* find_test(std::string_view name) {
  auto it = std::ranges::find(kTests, name, &Builtin::name);
  return it == std::end(kTests) ? nullptr : it;
}

}  // namespace tempo9::chat
