// What a model file is made of.
#pragma once

#include <string_view>
#include <vector>

#include "gguf/file.h"

namespace tempo9::cli {

struct DTypeShare {
  std::string_view name;
  double of_all = 0.0;  // of the tensors' bytes
};

// The types of the file's tensors, the largest share first.
std::vector<DTypeShare> dtype_shares(const gguf::File& file);

// The type that most of the bytes have: what people call the file's quantisation.
std::string_view main_dtype(const gguf::File& file);

}  // namespace tempo9::cli
