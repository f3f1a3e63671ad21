// F32: the values themselves.
#include <cstring>

#include "quant/types.h"

namespace tempo9::quant {
namespace {

void decode(const std::byte* blocks, float* out, int64_t n) {
  std::memcpy(out, blocks, static_cast<size_t>(n) * sizeof(float));
}

void encode(const float* values, std::byte* out, int64_t n) {
  std::memcpy(out, values, static_cast<size_t>(n) * sizeof(float));
}

}  // namespace

template <>
QuantType describe<tensor::DType::kF32>() {
  return {.dtype = tensor::DType::kF32, .decode = decode, .encode = encode, .unpack = nullptr};
}

}  // namespace tempo9::quant
