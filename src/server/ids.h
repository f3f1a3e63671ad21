// Random identifiers.
#pragma once

#include <cstddef>
#include <string>

namespace tempo9::server {

std::string random_hex(size_t n_digits);
std::string random_base62(size_t n_characters);
// Digits and lower-case letters.
std::string random_base36(size_t n_characters);

}  // namespace tempo9::server
