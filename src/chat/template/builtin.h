// The form of everything that templates can call by name: filters, tests, methods and functions. Each kind has one
// table (filters.cpp, tests.cpp, methods.cpp, functions.cpp); one more is one line there.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/template/context.h"
#include "chat/template/value.h"

namespace tempo9::chat {

// As written in the call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments of a call, assigned to the parameters of a builtin.
class Bound {
 public:
  // Null when it was not given.
  const Value* operator[](size_t parameter) const { return slots_[parameter]; }
  // With parameters "*" only.
  const Arguments& all() const { return arguments_; }

  // Readers with a default for what was not given. Errors: kInvalidInput for a value of another type.
  Result<int64_t> integer_or(size_t parameter, int64_t fallback) const;
  Result<std::string_view> text_or(size_t parameter, std::string_view fallback) const;
  bool truth_or(size_t parameter, bool fallback) const;

 private:
  friend struct Builtin;
  explicit Bound(const Arguments& arguments) : arguments_(arguments) {}

  const Arguments& arguments_;
  std::vector<const Value*> slots_;
};

struct Builtin {
  std::string_view name;
  // Names of the parameters with blanks between them; "*" when it looks at the arguments itself.
  std::string_view parameters;
  size_t n_required;
  // `self`: the value that is filtered or tested, or whose method this is; undefined for functions.
  Result<Value> (*apply)(Context& context, const Value& self, const Bound& arguments);

  // Errors: kInvalidInput for missing, unknown and repeated arguments, and those of `apply`.
  Result<Value> call(Context& context, const Value& self, const Arguments& arguments) const;
};

// Null when there is none of that name. They live as long as the program.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
const Builtin* find_method(const Value& self, std::string_view name);

// All of them, for the tests of the tables.
std::span<const Builtin> all_filters();
std::span<const Builtin> all_tests();

}  // namespace tempo9::chat
