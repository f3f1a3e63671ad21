#include "chat/template/builtin.h"

#include <fmt/format.h>

#include <algorithm>

namespace tempo9::chat {
namespace {

std::vector<std::string_view> split_names(std::string_view names) {
  std::vector<std::string_view> parts;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    parts.push_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return parts;
}

std::unexpected<Error> argument_error(std::string message) {
  return fail(ErrorCode::kInvalidInput, std::move(message));
}

}  // namespace

Result<int64_t> Bound::integer_or(size_t parameter, int64_t fallback) const {
  const Value* value = slots_[parameter];
  if (!value) return fallback;
  if (!value->is_integral()) return argument_error(fmt::format("an int is needed, not '{}'", type_name(*value)));
  return value->integer();
}

Result<std::string_view> Bound::text_or(size_t parameter, std::string_view fallback) const {
  const Value* value = slots_[parameter];
  if (!value) return fallback;
  if (!value->is_string()) return argument_error(fmt::format("a str is needed, not '{}'", type_name(*value)));
  return value->bytes();
}

bool Bound::truth_or(size_t parameter, bool fallback) const {
  return slots_[parameter] ? is_true(*slots_[parameter]) : fallback;
}

Result<Value> Builtin::call(Context& context, const Value& self, const Arguments& arguments) const {
  Bound bound(arguments);
  if (parameters == "*") return apply(context, self, bound);
  const std::vector<std::string_view> names = split_names(parameters);
  if (arguments.positional.size() > names.size())
    return argument_error(
        fmt::format("{}() takes at most {} arguments, not {}", name, names.size(), arguments.positional.size()));
  bound.slots_.resize(names.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound.slots_[i] = &arguments.positional[i];
  for (const auto& [key, value] : arguments.named) {
    const auto slot = static_cast<size_t>(std::ranges::find(names, key) - names.begin());
    if (slot == names.size()) return argument_error(fmt::format("{}() has no argument '{}'", name, key));
    if (bound.slots_[slot]) return argument_error(fmt::format("{}() got the argument '{}' twice", name, key));
    bound.slots_[slot] = &value;
  }
  for (size_t i = 0; i < n_required; ++i)
    if (!bound.slots_[i]) return argument_error(fmt::format("{}() needs the argument '{}'", name, names[i]));
  return apply(context, self, bound);
}

}  // namespace tempo9::chat
