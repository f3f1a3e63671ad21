// The global functions. The table is at the end.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "chat/template/builtin.h"
#include "chat/template/operators.h"

namespace tempo9::chat {
namespace {

// The reference's sandbox has the same limit.
constexpr int64_t kMaxRange = 100'000;

std::unexpected<Error> function_error(std::string message) {
  return fail(ErrorCode::kInvalidInput, std::move(message));
}

Result<Value> function_range(Context& context, const Value&, const Bound& args) {
  T9_TRY(first, args.integer_or(0, 0));
  T9_TRY(second, args.integer_or(1, 0));
  T9_TRY(step, args.integer_or(2, 1));
  const int64_t start = args[1] ? first : 0;
  const int64_t stop = args[1] ? second : first;
  if (step == 0) return function_error("range() arg 3 must not be zero");
  const double length = (static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step);
  if (length > kMaxRange) return function_error(fmt::format("the range is longer than {}", kMaxRange));
  std::vector<Value> items;
  int64_t value = start;
  while (step > 0 ? value < stop : value > stop) {
    items.emplace_back(value);
    if (__builtin_add_overflow(value, step, &value)) break;
  }
  context.meter().step(static_cast<int64_t>(items.size()));
  return context.list(std::move(items), SequenceKind::kRange);
}

Result<Value> function_namespace(Context& context, const Value&, const Bound& args) {
  Namespace* space = context.make_namespace();
  for (const Value& given : args.all().positional) {
    if (!given.is_dict()) return function_error("namespace() takes keyword arguments or a dict");
    for (const auto& [key, value] : given.dict()->entries())
      if (key.is_string()) space->set(key.bytes(), value);
  }
  for (const auto& [name, value] : args.all().named) space->set(name, value);
  return space;
}

Result<Value> function_dict(Context& context, const Value&, const Bound& args) {
  auto dict = context.dict();
  for (const Value& given : args.all().positional) {
    if (!given.is_dict()) return function_error("dict() takes keyword arguments or a dict");
    for (const auto& [key, value] : given.dict()->entries()) dict->set(key, value);
  }
  for (const auto& [name, value] : args.all().named) dict->set(context.string(Text::from_template(name)), value);
  return Value(std::move(dict));
}

Result<Value> function_raise_exception(Context& context, const Value&, const Bound& args) {
  return fail(Error(ErrorCode::kInvalidInput, to_text(*args[0], context.meter()).bytes).with_reason("template_error"));
}

Result<Value> function_strftime_now(Context& context, const Value&, const Bound& args) {
  T9_TRY(format, args.text_or(0, ""));
  if (format.size() > 256 || format.find('\0') != std::string_view::npos)
    return function_error("strftime_now: the format is not usable");
  const std::time_t now = std::chrono::system_clock::to_time_t(context.now());
  std::tm local{};
  localtime_r(&now, &local);
  // The mark tells an empty result from one that did not fit.
  const std::string marked = std::string(format) + "|";
  std::array<char, 4096> buffer;
  const size_t size = std::strftime(buffer.data(), buffer.size(), marked.c_str(), &local);
  if (size == 0) return function_error("strftime_now: the result is too long");
  return context.string(Text::from_template(std::string(buffer.data(), size - 1)));
}

constexpr Builtin kFunctions[] = {
    {"dict", "*", 0, function_dict},
    {"namespace", "*", 0, function_namespace},
    {"raise_exception", "message", 1, function_raise_exception},
    {"range", "start stop step", 1, function_range},
    {"strftime_now", "format", 1, function_strftime_now},
};

}  // namespace

const Builtin* find_function(std::string_view name) {
  auto it = std::ranges::find(kFunctions, name, &Builtin::name);
  return it == std::end(kFunctions) ? nullptr : it;
}

}  // namespace tempo9::chat
