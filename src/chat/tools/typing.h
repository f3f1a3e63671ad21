// Arguments get the types that the tool declares, never guessed ones. Spec tool-calling section 4.
#pragma once

#include <string>
#include <string_view>

#include "chat/tools/allowed_types.h"

namespace tempo9::chat::tools {

// The JSON text for a parameter's value that was written without a type, e.g. between XML tags: `raw` as it stands
// there, with the newlines that belong to the tags. `allowed` is null for a parameter that is not declared. A value
// that fits no declared type is passed as a string, byte for byte.
std::string type_raw_text(std::string_view raw, const AllowedTypes* allowed);

// Rule J: the JSON text for a top-level value that the model wrote as JSON. A string is converted when the parameter
// does not admit strings ("3" for an integer); a number with an integral value is written as an integer; all else, and
// all that does not convert, stays as written.
std::string type_json_value(std::string_view json, const AllowedTypes* allowed);

// Whether rule J can change a value of the parameter that is a string, or a number.
bool retypes_strings(const AllowedTypes* allowed);
bool retypes_numbers(const AllowedTypes* allowed);

}  // namespace tempo9::chat::tools
