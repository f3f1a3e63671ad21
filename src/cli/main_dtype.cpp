#include "cli/main_dtype.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "tensor/dtype.h"

namespace tempo9::cli {

std::string_view main_dtype(const gguf::File& file) {
  std::map<std::string_view, uint64_t> bytes_of;
  for (const gguf::TensorInfo& info : file.tensors()) bytes_of[tensor::dtype_name(info.dtype)] += info.bytes;
  const auto by_bytes = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::ranges::max_element(bytes_of, by_bytes);
  return most == bytes_of.end() ? "no tensors" : most->first;
}

}  // namespace tempo9::cli
