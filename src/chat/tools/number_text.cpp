#include "chat/tools/number_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tempo9::chat::tools {
namespace {

constexpr int64_t kMaxExpandedDigits = 308;
constexpr int64_t kHugeExponent = 1'000'000'000;  // stands for everything beyond

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string take_digits(std::string_view& rest) {
  const auto end = std::ranges::find_if_not(rest, is_digit);
  const auto n = static_cast<size_t>(end - rest.begin());
  std::string digits(rest.substr(0, n));
  rest.remove_prefix(n);
  return digits;
}

int64_t exponent_value(const std::string& exponent) {
  if (exponent.empty()) return 0;
  int64_t value = 0;
  for (const char c : exponent) {
    if (is_digit(c)) value = std::min(value * 10 + (c - '0'), kHugeExponent);
  }
  return exponent.find('-') == std::string::npos ? value : -value;
}

// The value as 0.DIGITS times ten to `point`, digits without zeros at either end; no digits for zero.
struct Scaled {
  std::string digits;
  int64_t point = 0;
  bool operator==(const Scaled&) const = default;
};

Scaled scaled(const Decimal& number) {
  std::string digits = number.whole + number.fraction;
  int64_t point = static_cast<int64_t>(number.whole.size()) + exponent_value(number.exponent);
  const size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return {};
  digits.erase(0, first);
  point -= static_cast<int64_t>(first);
  digits.erase(digits.find_last_not_of('0') + 1);
  return {std::move(digits), point};
}

std::string with_sign(const Decimal& number, std::string digits) {
  return number.is_negative ? "-" + std::move(digits) : std::move(digits);
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text, NumberSyntax syntax) {
  const bool lenient = syntax == NumberSyntax::kLenient;
  Decimal number;
  if (text.starts_with('-') || (lenient && text.starts_with('+'))) {
    number.is_negative = text.front() == '-';
    text.remove_prefix(1);
  }
  number.whole = take_digits(text);
  if (!lenient && (number.whole.empty() || (number.whole.size() > 1 && number.whole[0] == '0'))) return std::nullopt;
  number.is_integer_form = text.empty() && !number.whole.empty();
  const bool has_point = text.starts_with('.');
  if (has_point) {
    text.remove_prefix(1);
    number.fraction = take_digits(text);
    if (number.fraction.empty() && (!lenient || number.whole.empty())) return std::nullopt;
  }
  if (number.whole.empty() && !has_point) return std::nullopt;
  if (text.starts_with('e') || text.starts_with('E')) {
    const std::string_view exponent = text;
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (take_digits(text).empty()) return std::nullopt;
    number.exponent = exponent.substr(0, exponent.size() - text.size());
  }
  if (!text.empty()) return std::nullopt;
  number.whole.erase(0, std::min(number.whole.find_first_not_of('0'), number.whole.size()));
  if (number.whole.empty()) number.whole = "0";
  return number;
}

std::optional<std::string> integral_number(const Decimal& number) {
  const Scaled value = scaled(number);
  if (value.digits.empty()) return "0";
  const auto n_digits = static_cast<int64_t>(value.digits.size());
  if (value.point < n_digits) return std::nullopt;
  if (!number.exponent.empty() && value.point > kMaxExpandedDigits) return std::nullopt;
  return with_sign(number, value.digits + std::string(static_cast<size_t>(value.point - n_digits), '0'));
}

std::optional<std::string> canonical_number(const Decimal& number) {
  const Scaled value = scaled(number);
  if (value.point >= static_cast<int64_t>(value.digits.size())) return integral_number(number);
  std::string text = number.whole;
  if (!number.fraction.empty()) text += "." + number.fraction;
  return with_sign(number, text + number.exponent);
}

bool equal_numbers(std::string_view a, std::string_view b) {
  const auto x = parse_decimal(a, NumberSyntax::kLenient);
  const auto y = parse_decimal(b, NumberSyntax::kLenient);
  if (!x || !y) return false;
  const Scaled left = scaled(*x);
  return left == scaled(*y) && (left.digits.empty() || x->is_negative == y->is_negative);
}

}  // namespace tempo9::chat::tools
