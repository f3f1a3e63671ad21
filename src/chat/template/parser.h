// Tokens to syntax tree.
#pragma once

#include <string_view>

#include "base/result.h"
#include "chat/template/ast.h"
#include "chat/template/template.h"

namespace tempo9::chat {

// Errors: as Template::parse.
Result<Body> parse_template(std::string_view source, const TemplateLimits& limits);

}  // namespace tempo9::chat
