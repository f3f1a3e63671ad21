// Views of memory that somebody else owns: activations, weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace tempo9::tensor {

// `rows` rows of `cols` elements; row r starts at data + r * stride (in elements).
template <class T>
struct MatView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  T* row(int64_t r) const { return data + r * stride; }
  std::span<T> row_span(int64_t r) const { return {row(r), static_cast<size_t>(cols)}; }
  operator MatView<const T>() const { return {data, rows, cols, stride}; }
};

// How a weight's blocks lie in memory. The values are the same in every layout.
enum class Layout : uint8_t {
  kInPlace,  // GGUF order: row after row, block after block
  kTiled,    // some rows side by side, as one instruction set reads them: kernels/tiles.h
};

// A weight: `depth` stacked matrices (1 unless experts) of `rows` rows with `cols` elements each, so that
// y[r] = sum_c W[r][c] * x[c]. GGUF dimensions are ne = [cols, rows, depth]. A vector has rows = depth = 1.
struct WeightView {
  DType dtype = DType::kF32;
  int64_t cols = 0;
  int64_t rows = 1;
  int64_t depth = 1;
  const std::byte* data = nullptr;
  size_t row_bytes = 0;
  Layout layout = Layout::kInPlace;
  bool is_mapped = false;  // memory of a mapped file (base/mapped_file.h), which comes back when it is let go of

  // In tiles: only for rows at which a group of rows begins.
  const std::byte* row(int64_t r) const { return data + static_cast<size_t>(r) * row_bytes; }
  size_t size_bytes() const { return row_bytes * static_cast<size_t>(rows * depth); }
  int64_t elements() const { return cols * rows * depth; }
};

// A half-open range of indices, as threads are given to work on.
struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

}  // namespace tempo9::tensor
