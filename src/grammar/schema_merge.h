// Two schemas that must both hold, as one.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/notation.h"

namespace tempo9::grammar {

// A schema that admits exactly what `a` and `b` both admit. References are kept, so `$ref` must not be in both.
// Errors: kUnsupported, naming the keyword for which there is no such schema.
Result<Json> merge_schemas(const Json& a, const Json& b);

}  // namespace tempo9::grammar
