// Which JSON types a parameter's schema admits: all that typing needs to know of a schema. Spec tool-calling 4.2.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "chat/message.h"

namespace tempo9::chat::tools {

// In the order in which a text is tried.
enum class JsonType : uint8_t { kNull, kBoolean, kInteger, kNumber, kArray, kObject, kString };

// "number" includes integer, so it is both; `Types` is a set.
class Types {
 public:
  constexpr Types() = default;
  constexpr Types(JsonType type) : bits_(static_cast<uint8_t>(1u << static_cast<unsigned>(type))) {}
  static constexpr Types all() { return from_bits(0x7f); }
  constexpr bool has(JsonType type) const { return (bits_ & Types(type).bits_) != 0; }
  constexpr bool is_empty() const { return bits_ == 0; }
  constexpr Types operator|(Types other) const { return from_bits(static_cast<uint8_t>(bits_ | other.bits_)); }
  constexpr Types operator&(Types other) const { return from_bits(static_cast<uint8_t>(bits_ & other.bits_)); }
  constexpr bool operator==(const Types&) const = default;

 private:
  static constexpr Types from_bits(uint8_t bits) {
    Types types;
    types.bits_ = bits;
    return types;
  }
  uint8_t bits_ = 0;
};

struct AllowedTypes {
  // A schema that says nothing: complete arrays and objects are taken for what they are, everything else is text.
  bool is_any = false;
  Types types;                       // every type when is_any
  std::vector<const Json*> members;  // of enum and const, in order; only those whose type is allowed

  bool has(JsonType type) const { return types.has(type); }
  bool is_string_only() const { return types == Types(JsonType::kString); }
};

// The types of `schema`, a part of `root` to which its references point. Anything may stand in a schema: what cannot
// be understood is a string. The result points into `root`.
AllowedTypes allowed_types(const Json& schema, const Json& root);

// The schema that `root` (a tool's parameters) has for the parameter: in properties, else by patternProperties, else
// additionalProperties if that is a schema. Null: the parameter is not declared.
const Json* find_parameter(const Json& root, std::string_view name);

// The value that a JSON pointer reference ("#/$defs/A") leads to; null when there is none.
const Json* find_reference(const Json& root, std::string_view reference);

}  // namespace tempo9::chat::tools
