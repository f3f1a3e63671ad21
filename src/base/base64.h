// Base64 (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tempo9 {

// With padding.
std::string encode_base64(std::string_view bytes);
// Nothing when `text` is not base64. Padding may be left out; white space may not stand in it.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace tempo9
