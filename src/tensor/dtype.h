// Tensor element types: names, GGUF ids and block sizes. Data only; what the bits mean is in quant/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tempo9::tensor {

// The enumerators' values are the ids in a GGUF file.
enum class DType : uint32_t {
#define T9_DTYPE(name, id, elements, bytes, state) k##name = id,
#include "tensor/dtypes.def"
#undef T9_DTYPE
};

enum class DTypeState : uint8_t { kUsable, kPlain, kRefused, kRemoved, kActivation };

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t block_elements;  // 0 for removed types
  int64_t block_bytes;
  DTypeState state;
};

// All types in the order of their ids.
std::span<const DTypeInfo> all_dtypes();

// The entry of a GGUF type id; null when no such type was ever defined.
const DTypeInfo* find_dtype(uint32_t id);

// REQUIRES: `dtype` is an enumerator.
const DTypeInfo& dtype_info(DType dtype);
inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }

// Name of a fork's type id (ik_llama.cpp), for messages; empty when the id is none of those.
std::string_view fork_dtype_name(uint32_t id);

// Bytes of one row of `cols` elements. REQUIRES: cols is a multiple of the block.
inline size_t row_bytes(DType dtype, int64_t cols) {
  const DTypeInfo& info = dtype_info(dtype);
  return static_cast<size_t>(cols / info.block_elements * info.block_bytes);
}

}  // namespace tempo9::tensor
