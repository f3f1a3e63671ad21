#include "cli/main_dtype.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>

#include "tensor/dtype.h"

namespace tempo9::cli {

std::vector<DTypeShare> dtype_shares(const gguf::File& file) {
  std::map<std::string_view, uint64_t> bytes_of;
  uint64_t all = 0;
  for (const gguf::TensorInfo& info : file.tensors()) {
    bytes_of[tensor::dtype_name(info.dtype)] += info.bytes;
    all += info.bytes;
  }
  std::vector<DTypeShare> shares;
  for (const auto& [name, bytes] : bytes_of) {
    shares.push_back({name, static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(all, 1))});
  }
  std::ranges::stable_sort(shares, std::greater(), &DTypeShare::of_all);
  return shares;
}

std::string_view main_dtype(const gguf::File& file) {
  const std::vector<DTypeShare> shares = dtype_shares(file);
  return shares.empty() ? "no tensors" : shares.front().name;
}

}  // namespace tempo9::cli
