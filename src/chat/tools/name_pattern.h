// Regular expressions of patternProperties, as far as parameter names need them.
#pragma once

#include <string_view>

namespace tempo9::chat::tools {

// Whether `pattern` is found anywhere in `name`. Knows characters, escapes, '.', classes, groups, alternatives, the
// quantifiers ? * + {m,n}, ^ and $. False for anything else, and when matching takes too long.
bool name_matches(std::string_view pattern, std::string_view name);

}  // namespace tempo9::chat::tools
