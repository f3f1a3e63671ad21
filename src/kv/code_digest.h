// A digest of the code that decides what the bytes of pages and states are. Made at build time
// (cmake/CodeDigest.cmake).
#pragma once

#include <string_view>

namespace tempo9::kv {

extern const std::string_view kCodeDigest;

}  // namespace tempo9::kv
