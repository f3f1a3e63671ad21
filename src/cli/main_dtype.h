// What a model file is made of, in a word.
#pragma once

#include <string_view>

#include "gguf/file.h"

namespace tempo9::cli {

// The type that holds most of the file's bytes: "Q4_K". "no tensors" when there are none.
std::string_view main_dtype(const gguf::File& file);

}  // namespace tempo9::cli
