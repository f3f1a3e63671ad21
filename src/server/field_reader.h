// Typed reading of a request's fields. The first fault is kept, so a dialect reads field after field and asks once.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/json.h"

namespace tempo9::server {

struct IntegerRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool includes_min = true;
};

// Fields that are absent or null give nothing. A wrong type or a value out of range gives nothing too and becomes the
// error: kInvalidInput with the field's path and reason invalid_type or invalid_value. `object` outlives the reader.
class FieldReader {
 public:
  explicit FieldReader(const Json& object) : object_(&object), first_error_(&own_error_) {}

  const Json* find(std::string_view name) const;
  std::optional<bool> find_bool(std::string_view name);
  // Integral floats count: 1.0 is 1.
  std::optional<int64_t> find_integer(std::string_view name, IntegerRange range = {});
  std::optional<double> find_number(std::string_view name, NumberRange range = {});
  std::optional<std::string> find_string(std::string_view name);
  // A string, or an array of at most `max` strings; none of them empty.
  std::vector<std::string> find_strings(std::string_view name, size_t max);
  const Json* find_array(std::string_view name);
  const Json* find_object(std::string_view name);
  // As find_string; absent is an error as well, with the reason missing_required_parameter.
  std::string require_string(std::string_view name);
  // The fields of a nested object; of an empty one when it is absent. Its faults are this reader's.
  FieldReader nested(std::string_view name);
  // The fields of an object in an array. REQUIRES: find_array(name) gives an array with more than `i` values.
  FieldReader element(std::string_view name, size_t i);

  std::string path_of(std::string_view name) const;
  void refuse_type(std::string_view name, std::string_view expected, const Json& value);
  void refuse_value(std::string_view name, std::string message);
  void refuse_missing(std::string_view name);
  // Understood, and not built; `what` is what it would take.
  void refuse_unsupported(std::string_view name, std::string_view what);
  void refuse(Error error);

  Result<void> result() const;

 private:
  FieldReader(const Json* object, std::string path, std::optional<Error>* first_error)
      : object_(object), path_(std::move(path)), first_error_(first_error) {}
  FieldReader(const FieldReader&) = delete;
  FieldReader& operator=(const FieldReader&) = delete;

  const Json* object_;
  std::string path_;
  std::optional<Error> own_error_;
  std::optional<Error>* first_error_;
};

}  // namespace tempo9::server
