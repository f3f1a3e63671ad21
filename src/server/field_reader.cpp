#include "server/field_reader.h"

#include <fmt/format.h>

#include <cmath>

namespace tempo9::server {

namespace {

const Json kNoFields = Json::object();

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto n = value.get<uint64_t>();
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(n);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double x = value.get<double>();
  // 2^63 itself does not fit; every double of smaller magnitude does.
  if (x != std::floor(x) || std::fabs(x) >= 9223372036854775808.0) return std::nullopt;
  return static_cast<int64_t>(x);
}

std::string describe(const IntegerRange& range) {
  if (range.max == std::numeric_limits<int64_t>::max()) return fmt::format("at least {}", range.min);
  return fmt::format("between {} and {}", range.min, range.max);
}

std::string describe(const NumberRange& range) {
  if (std::isinf(range.max)) return fmt::format("{} {}", range.includes_min ? "at least" : "greater than", range.min);
  if (!range.includes_min) return fmt::format("greater than {} and at most {}", range.min, range.max);
  return fmt::format("between {} and {}", range.min, range.max);
}

}  // namespace

const Json* FieldReader::find(std::string_view name) const {
  const auto it = object_->find(std::string(name));
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

std::optional<bool> FieldReader::find_bool(std::string_view name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  refuse_type(name, "a boolean", *value);
  return std::nullopt;
}

std::optional<int64_t> FieldReader::find_integer(std::string_view name, IntegerRange range) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const auto number = as_integer(*value);
  if (!number && value->is_number_unsigned()) {
    refuse_value(name, fmt::format("{} is too large for an integer", value->get<uint64_t>()));
    return std::nullopt;
  }
  if (!number) {
    refuse_type(name, "an integer", *value);
    return std::nullopt;
  }
  if (*number >= range.min && *number <= range.max) return number;
  refuse_value(name, fmt::format("{} is not {}", *number, describe(range)));
  return std::nullopt;
}

std::optional<double> FieldReader::find_number(std::string_view name, NumberRange range) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) {
    refuse_type(name, "a number", *value);
    return std::nullopt;
  }
  const double number = value->get<double>();
  const bool above_min = range.includes_min ? number >= range.min : number > range.min;
  if (above_min && number <= range.max) return number;
  refuse_value(name, fmt::format("{} is not {}", number, describe(range)));
  return std::nullopt;
}

std::optional<std::string> FieldReader::find_string(std::string_view name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  refuse_type(name, "a string", *value);
  return std::nullopt;
}

std::vector<std::string> FieldReader::find_strings(std::string_view name, size_t max) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_string() && !value->is_array()) {
    refuse_type(name, "a string or an array of strings", *value);
    return {};
  }
  const Json list = value->is_string() ? Json::array({*value}) : *value;
  if (list.size() > max) {
    refuse_value(name, fmt::format("{} strings are more than {}", list.size(), max));
    return {};
  }
  std::vector<std::string> strings;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string item = value->is_string() ? std::string(name) : fmt::format("{}[{}]", name, i);
    if (!list[i].is_string()) {
      refuse_type(item, "a string", list[i]);
    } else if (list[i].get_ref<const std::string&>().empty()) {
      refuse_value(item, "it is empty");
    } else {
      strings.push_back(list[i].get<std::string>());
    }
  }
  return strings;
}

const Json* FieldReader::find_array(std::string_view name) {
  const Json* value = find(name);
  if (!value || value->is_array()) return value;
  refuse_type(name, "an array", *value);
  return nullptr;
}

const Json* FieldReader::find_object(std::string_view name) {
  const Json* value = find(name);
  if (!value || value->is_object()) return value;
  refuse_type(name, "an object", *value);
  return nullptr;
}

std::string FieldReader::require_string(std::string_view name) {
  if (!find(name)) refuse_missing(name);
  return find_string(name).value_or(std::string());
}

FieldReader FieldReader::nested(std::string_view name) {
  const Json* object = find_object(name);
  return FieldReader(object ? object : &kNoFields, path_of(name), first_error_);
}

FieldReader FieldReader::element(std::string_view name, size_t i) {
  const Json& value = (*find(name))[i];
  const std::string item = fmt::format("{}[{}]", name, i);
  if (!value.is_object()) refuse_type(item, "an object", value);
  return FieldReader(value.is_object() ? &value : &kNoFields, path_of(item), first_error_);
}

std::string FieldReader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void FieldReader::refuse_type(std::string_view name, std::string_view expected, const Json& value) {
  const std::string path = path_of(name);
  refuse(Error(ErrorCode::kInvalidInput,
               fmt::format("Invalid type for '{}': expected {}, got {}.", path, expected, json_type_name(value)))
             .with_field(path)
             .with_reason("invalid_type"));
}

void FieldReader::refuse_value(std::string_view name, std::string message) {
  const std::string path = path_of(name);
  refuse(Error(ErrorCode::kInvalidInput, fmt::format("Invalid value for '{}': {}.", path, message))
             .with_field(path)
             .with_reason("invalid_value"));
}

void FieldReader::refuse_missing(std::string_view name) {
  const std::string path = path_of(name);
  refuse(Error(ErrorCode::kInvalidInput, fmt::format("Missing required parameter: '{}'.", path))
             .with_field(path)
             .with_reason("missing_required_parameter"));
}

void FieldReader::refuse_unsupported(std::string_view name, std::string_view what) {
  const std::string path = path_of(name);
  refuse(Error(ErrorCode::kUnsupported, fmt::format("'{}': {} is not supported by this server.", path, what))
             .with_field(path)
             .with_reason("unsupported_parameter"));
}

void FieldReader::refuse(Error error) {
  if (!*first_error_) *first_error_ = std::move(error);
}

Result<void> FieldReader::result() const {
  if (*first_error_) return fail(**first_error_);
  return {};
}

}  // namespace tempo9::server
