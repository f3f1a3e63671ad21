// Names the code that builds programs: a digest of the sources of tensor/, gguf/, graph/ and models/, made by the
// build.
#pragma once

#include <string_view>

namespace tempo9::models {

extern const std::string_view kCodeDigest;

}  // namespace tempo9::models
