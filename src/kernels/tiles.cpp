#include "kernels/tiles.h"

#include <cstring>

#include "base/check.h"

namespace tempo9::kernels {

bool can_tile(const MatMulKernels& kernels, const WeightView& weight) {
  return kernels.tile_rows > 0 && weight.layout == tensor::Layout::kInPlace &&
         act_format(weight.dtype) != ActFormat::kF32 && kernels.is_native(weight.dtype) &&
         weight.rows % (2 * kernels.tile_rows) == 0;
}

void read_tiled_row(const WeightView& weight, int64_t tile_rows, int64_t row, std::byte* out) {
  T9_DCHECK(weight.layout == tensor::Layout::kTiled);
  const tensor::DTypeInfo& info = tensor::dtype_info(weight.dtype);
  const int64_t n_blocks = weight.cols / info.block_elements;
  const int64_t head = tile_head_bytes(info.block_elements, info.block_bytes);
  const int64_t tail = (info.block_bytes - head) % 4;
  const int64_t lane = row % tile_rows;
  const std::byte* tile = weight.row(row - lane);
  const auto copy = [&](int64_t at, int64_t unit) {
    std::memcpy(out + at, tile + tile_rows * at + lane * unit, static_cast<size_t>(unit));
  };
  for (int64_t b = 0; b < n_blocks; ++b, out += info.block_bytes, tile += tile_rows * info.block_bytes) {
    copy(0, head);
    int64_t at = head;
    for (; at < info.block_bytes - tail; at += 4) copy(at, 4);
    copy(at, tail);
  }
}

}  // namespace tempo9::kernels
