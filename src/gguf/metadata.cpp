// Checked readers over the stored key/value pairs.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "gguf/file.h"

namespace tempo9::gguf {
namespace {

template <class T>
constexpr std::string_view kTypeName = "unknown";
template <>
constexpr std::string_view kTypeName<uint8_t> = "u8";
template <>
constexpr std::string_view kTypeName<int8_t> = "i8";
template <>
constexpr std::string_view kTypeName<uint16_t> = "u16";
template <>
constexpr std::string_view kTypeName<int16_t> = "i16";
template <>
constexpr std::string_view kTypeName<uint32_t> = "u32";
template <>
constexpr std::string_view kTypeName<int32_t> = "i32";
template <>
constexpr std::string_view kTypeName<float> = "f32";
template <>
constexpr std::string_view kTypeName<bool> = "bool";
template <>
constexpr std::string_view kTypeName<std::string> = "string";
template <>
constexpr std::string_view kTypeName<uint64_t> = "u64";
template <>
constexpr std::string_view kTypeName<int64_t> = "i64";
template <>
constexpr std::string_view kTypeName<double> = "f64";

template <class T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

std::string describe(const MetaValue& value) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) {
    return std::visit([](const auto& x) { return std::string(kTypeName<std::decay_t<decltype(x)>>); }, *scalar);
  }
  return std::visit(
      [](const auto& x) {
        using Element = typename std::decay_t<decltype(x)>::value_type;
        return fmt::format("array of {} {}", x.size(), kTypeName<Element>);
      },
      std::get<Array>(value));
}

std::unexpected<Error> wrong_type(std::string_view key, std::string_view wanted, const MetaValue& value) {
  return fail(ErrorCode::kInvalidInput,
              fmt::format("metadata {}: expected {}, found {}", key, wanted, describe(value)));
}

std::unexpected<Error> missing(std::string_view key) {
  return fail(ErrorCode::kNotFound, fmt::format("metadata {} is missing", key));
}

// The stored integer as int64, if it fits; an unsigned 64-bit value may not.
template <class T>
bool to_int64(T x, int64_t& out) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (x > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
  }
  out = static_cast<int64_t>(x);
  return true;
}

Result<int64_t> as_int(std::string_view key, const MetaValue& value) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) {
    return std::visit(
        [&](const auto& x) -> Result<int64_t> {
          using T = std::decay_t<decltype(x)>;
          if constexpr (kIsInteger<T>) {
            int64_t out = 0;
            if (to_int64(x, out)) return out;
            return fail(ErrorCode::kInvalidInput, fmt::format("metadata {}: {} is too large", key, x));
          } else {
            return wrong_type(key, "an integer", value);
          }
        },
        *scalar);
  }
  return wrong_type(key, "an integer", value);
}

Result<double> as_float(std::string_view key, const MetaValue& value) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) {
    return std::visit(
        [&](const auto& x) -> Result<double> {
          using T = std::decay_t<decltype(x)>;
          if constexpr (std::is_floating_point_v<T> || kIsInteger<T>) {
            const double out = static_cast<double>(x);
            if (std::isfinite(out)) return out;
            return fail(ErrorCode::kInvalidInput, fmt::format("metadata {}: {} is not finite", key, out));
          } else {
            return wrong_type(key, "a number", value);
          }
        },
        *scalar);
  }
  return wrong_type(key, "a number", value);
}

template <class T>
Result<T> as_exact(std::string_view key, std::string_view wanted, const MetaValue& value) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) {
    if (const auto* x = std::get_if<T>(scalar)) return *x;
  }
  return wrong_type(key, wanted, value);
}

// A present key converted by `convert`, an absent one as kNotFound or as an empty optional.
template <class Convert>
auto read_with(const Metadata& metadata, std::string_view key, Convert convert)
    -> decltype(convert(std::declval<const MetaValue&>())) {
  const MetaValue* value = metadata.find(key);
  if (!value) return missing(key);
  return convert(*value);
}

template <class T>
Result<std::optional<T>> optional_of(const Metadata& metadata, std::string_view key, Result<T> value) {
  if (!metadata.contains(key)) return std::optional<T>();
  if (!value) return fail(std::move(value).error());
  return std::optional<T>(*std::move(value));
}

}  // namespace

bool Metadata::contains(std::string_view key) const { return find(key) != nullptr; }

const MetaValue* Metadata::find(std::string_view key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

Result<int64_t> Metadata::read_int(std::string_view key) const {
  return read_with(*this, key, [&](const MetaValue& v) { return as_int(key, v); });
}
Result<double> Metadata::read_float(std::string_view key) const {
  return read_with(*this, key, [&](const MetaValue& v) { return as_float(key, v); });
}
Result<bool> Metadata::read_bool(std::string_view key) const {
  return read_with(*this, key, [&](const MetaValue& v) { return as_exact<bool>(key, "a bool", v); });
}
Result<std::string> Metadata::read_string(std::string_view key) const {
  return read_with(*this, key, [&](const MetaValue& v) { return as_exact<std::string>(key, "a string", v); });
}
Result<std::optional<int64_t>> Metadata::find_int(std::string_view key) const {
  return optional_of(*this, key, read_int(key));
}
Result<std::optional<double>> Metadata::find_float(std::string_view key) const {
  return optional_of(*this, key, read_float(key));
}
Result<std::optional<bool>> Metadata::find_bool(std::string_view key) const {
  return optional_of(*this, key, read_bool(key));
}
Result<std::optional<std::string>> Metadata::find_string(std::string_view key) const {
  return optional_of(*this, key, read_string(key));
}

Result<std::span<const std::string>> Metadata::read_strings(std::string_view key) const {
  const MetaValue* value = find(key);
  if (!value) return missing(key);
  if (const auto* array = std::get_if<Array>(value)) {
    if (const auto* strings = std::get_if<std::vector<std::string>>(array)) return std::span(*strings);
  }
  return wrong_type(key, "an array of strings", *value);
}

Result<std::vector<int64_t>> Metadata::read_ints(std::string_view key) const {
  const MetaValue* value = find(key);
  if (!value) return missing(key);
  const auto* array = std::get_if<Array>(value);
  if (!array) return wrong_type(key, "an array of integers", *value);
  return std::visit(
      [&](const auto& elements) -> Result<std::vector<int64_t>> {
        using T = typename std::decay_t<decltype(elements)>::value_type;
        if constexpr (kIsInteger<T>) {
          std::vector<int64_t> out;
          out.reserve(elements.size());
          for (const T x : elements) {
            int64_t converted = 0;
            if (!to_int64(x, converted)) {
              return fail(ErrorCode::kInvalidInput, fmt::format("metadata {}: {} is too large", key, x));
            }
            out.push_back(converted);
          }
          return out;
        } else {
          return wrong_type(key, "an array of integers", *value);
        }
      },
      *array);
}

Result<std::vector<double>> Metadata::read_floats(std::string_view key) const {
  const MetaValue* value = find(key);
  if (!value) return missing(key);
  const auto* array = std::get_if<Array>(value);
  if (!array) return wrong_type(key, "an array of numbers", *value);
  return std::visit(
      [&](const auto& elements) -> Result<std::vector<double>> {
        using T = typename std::decay_t<decltype(elements)>::value_type;
        if constexpr (kIsInteger<T> || std::is_floating_point_v<T>) {
          return std::vector<double>(elements.begin(), elements.end());
        } else {
          return wrong_type(key, "an array of numbers", *value);
        }
      },
      *array);
}

Result<std::vector<bool>> Metadata::read_bools(std::string_view key) const {
  const MetaValue* value = find(key);
  if (!value) return missing(key);
  if (const auto* array = std::get_if<Array>(value)) {
    if (const auto* bools = std::get_if<std::vector<bool>>(array)) return *bools;
  }
  return wrong_type(key, "an array of bools", *value);
}

Result<std::optional<std::vector<int64_t>>> Metadata::find_int_per_layer(std::string_view key, int64_t count) const {
  using Values = std::vector<int64_t>;
  const MetaValue* value = find(key);
  if (!value) return std::optional<Values>();
  if (std::holds_alternative<Scalar>(*value)) {
    T9_TRY(scalar, as_int(key, *value));
    return std::optional<Values>(Values(static_cast<size_t>(count), scalar));
  }
  T9_TRY(values, read_ints(key));
  if (static_cast<int64_t>(values.size()) != count) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {}: has {} elements, the model has {} layers", key, values.size(), count));
  }
  return std::optional<Values>(std::move(values));
}

Result<void> Metadata::insert(std::string key, MetaValue value) {
  const auto [it, inserted] = entries_.try_emplace(std::move(key), std::move(value));
  if (!inserted) return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} occurs twice", it->first));
  return {};
}

}  // namespace tempo9::gguf
