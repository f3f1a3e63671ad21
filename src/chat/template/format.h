// Python's two ways to put values into text: "%s" % x and "{}".format(x).
#pragma once

#include "base/result.h"
#include "chat/template/builtin.h"
#include "chat/template/context.h"
#include "chat/template/value.h"

namespace tempo9::chat {

// pattern % values: values is a tuple, a dict for %(name)s, or the only value. The pattern and strings put in by plain
// %s keep their origin. REQUIRES: pattern is a string.
Result<Value> format_percent(Context& context, const Value& pattern, const Value& values);

// pattern.format(…): {}, {0}, {name}, with format specifications, without attributes and subscripts.
Result<Value> format_braces(Context& context, const Value& pattern, const Arguments& arguments);

}  // namespace tempo9::chat
