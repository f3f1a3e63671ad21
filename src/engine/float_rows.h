// A buffer of rows of floats that passes write into.
#pragma once

#include <cstdint>
#include <utility>

#include "base/buffer.h"
#include "tensor/views.h"

namespace tempo9::engine {

// Rows that are never used cost nothing. Views live as long as the object, also after a move.
class FloatRows {
 public:
  FloatRows() = default;
  // Errors: those of Buffer::reserve.
  static Result<FloatRows> reserve(int64_t rows, int64_t cols) {
    T9_TRY(buffer, Buffer::reserve(static_cast<size_t>(rows * cols) * sizeof(float)));
    FloatRows result;
    result.buffer_ = std::move(buffer);
    result.cols_ = cols;
    return result;
  }

  int64_t cols() const { return cols_; }
  // REQUIRES: no more rows than were reserved.
  tensor::MatView<float> first(int64_t rows) { return {reinterpret_cast<float*>(buffer_.data()), rows, cols_, cols_}; }

 private:
  Buffer buffer_;
  int64_t cols_ = 0;
};

}  // namespace tempo9::engine
