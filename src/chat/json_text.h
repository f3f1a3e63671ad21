// JSON from outside. The library's parser copes with any nesting, but copying and printing what it made recurse.
#pragma once

#include <optional>
#include <string_view>

#include "chat/message.h"

namespace tempo9::chat {

// Spec api 1.2.
inline constexpr int kMaxJsonNesting = 512;

// Empty when the text is not JSON or nests too deeply.
std::optional<Json> parse_json_text(std::string_view text);

}  // namespace tempo9::chat
