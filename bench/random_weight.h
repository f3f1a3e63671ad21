// Weights for benchmarks.
#pragma once

#include <cstring>

#include "base/buffer.h"
#include "quant/quant.h"
#include "tensor/views.h"

namespace tempo9 {

// A weight of pseudo-random bytes with sane scales: encoding real numbers would take longer than the benchmark.
struct RandomWeight {
  Buffer memory;
  tensor::WeightView view;

  RandomWeight(tensor::DType dtype, int64_t cols, int64_t rows, int64_t depth = 1) {
    const tensor::DTypeInfo& info = tensor::dtype_info(dtype);
    view = {.dtype = dtype, .cols = cols, .rows = rows, .depth = depth, .row_bytes = tensor::row_bytes(dtype, cols)};
    memory = *Buffer::reserve(view.size_bytes());
    view.data = memory.data();
    uint64_t state = 1;
    for (std::byte& b : memory.bytes()) b = static_cast<std::byte>((state = state * 6364136223846793005u + 1) >> 56);
    if (dtype == tensor::DType::kF32) {
      auto* values = reinterpret_cast<float*>(memory.data());
      for (int64_t i = 0; i < view.elements(); ++i)
        values[i] = static_cast<float>(i * 2654435761 % 2001) * 1e-4f - 0.1f;
      return;
    }
    // 0.01 as a half wherever a scale could be: the values do not matter, only that no sum is infinite.
    const uint16_t half = quant::f32_to_f16(0.01f);
    const size_t offsets[] = {0, 2, 80, 82, 108, 208};
    for (size_t at = 0; at < memory.size(); at += static_cast<size_t>(info.block_bytes)) {
      for (size_t offset : offsets) {
        if (offset + 2 <= static_cast<size_t>(info.block_bytes)) std::memcpy(memory.data() + at + offset, &half, 2);
      }
    }
  }
};

}  // namespace tempo9
