// Request bodies: JSON within limits, in the client's key order.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/message.h"

namespace tempo9::server {

using chat::Json;

// The object that `body` holds. A BOM is skipped; ill-formed UTF-8 and lone surrogate escapes read as U+FFFD; of equal
// keys the last value wins. Errors: kInvalidInput, with reason "invalid_json" unless the body is empty.
Result<Json> parse_json_object(std::string body);

// "an object", "a string", …: for messages.
std::string_view json_type_name(const Json& value);

// One line. Never throws: text that is not UTF-8 is repaired.
std::string dump_json(const Json& value);

// `object` with one more member, whose value is JSON text as it is: numbers in it keep their digits.
std::string dump_json_with(const Json& object, std::string_view name, std::string_view value);

}  // namespace tempo9::server
