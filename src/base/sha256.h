// SHA-256 (FIPS 180-4), for names of content. Not for secrets.
#pragma once

#include <string>
#include <string_view>

namespace tempo9 {

// 64 lower-case hex digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace tempo9
