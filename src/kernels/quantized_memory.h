// One block of memory for quantised activation rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace tempo9::kernels {

// Bytes of `rows` rows of `cols` values quantised.
inline size_t quantized_bytes(ActFormat format, int64_t rows, int64_t cols) {
  const QuantizedRows view{.cols = cols, .format = format};
  return static_cast<size_t>(rows * (cols + cols / view.block() * int64_t{sizeof(float)} +
                                     cols / view.sum_group() * int64_t{sizeof(int16_t)}));
}

// The rows in `data`, which has quantized_bytes() of the same numbers and is aligned for floats.
inline QuantizedRows quantized_view(std::byte* data, ActFormat format, int64_t rows, int64_t cols) {
  QuantizedRows view{.rows = rows, .cols = cols, .format = format};
  // Columns are a multiple of 32, so each part is aligned for the next.
  view.q = reinterpret_cast<int8_t*>(data);
  view.d = reinterpret_cast<float*>(view.q + rows * cols);
  view.sums = reinterpret_cast<int16_t*>(view.d + rows * (cols / view.block()));
  return view;
}

}  // namespace tempo9::kernels
