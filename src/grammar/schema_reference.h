// JSON pointers inside a schema.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "grammar/notation.h"

namespace tempo9::grammar {

// The place in `root` that `ref`, the value of a $ref, names: "#", or "#/" and a pointer. Valid while `root` lives.
// Errors: kInvalidInput when it names nothing, or something in another document.
Result<const Json*> resolve_reference(const Json& root, const Json& ref);

// A name as it is written in a pointer.
std::string escape_pointer_part(std::string_view name);

}  // namespace tempo9::grammar
