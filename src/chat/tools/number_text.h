// Numbers as decimal text, at any precision: never through a double.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tempo9::chat::tools {

enum class NumberSyntax {
  kJson,     // as JSON writes numbers
  kLenient,  // also a plus sign, leading zeros, ".5" and "5."
};

// A decimal number, taken apart.
struct Decimal {
  bool is_negative = false;
  std::string whole;             // digits before the point, without leading zeros; "0" when there are none
  std::string fraction;          // digits behind it, as written
  std::string exponent;          // as written, with its letter and sign ("E+3"); empty when there is none
  bool is_integer_form = false;  // digits only: neither point nor exponent
};

// Nothing when `text` is not a number in this syntax.
std::optional<Decimal> parse_decimal(std::string_view text, NumberSyntax syntax);

// The canonical JSON spelling (spec tool-calling 4.3): an integral value as plain digits, others as written less plus
// sign and superfluous zeros in front. Nothing for an integral value whose exponent expands to more than 308 digits.
std::optional<std::string> canonical_number(const Decimal& number);
// The same for integral values; nothing for others.
std::optional<std::string> integral_number(const Decimal& number);

// Equality of value. REQUIRES: both are JSON numbers.
bool equal_numbers(std::string_view a, std::string_view b);

}  // namespace tempo9::chat::tools
