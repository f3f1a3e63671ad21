// How much work of a matrix product is one chunk.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kernels.h"
#include "tensor/views.h"

namespace tempo9::backends::cpu {

// Up to this many activation rows a product is a matter of reading the weights (spec performance section 1).
inline constexpr int64_t kFewRows = 8;

// Weight rows per chunk. Few activation rows: a chunk is a piece of the weights worth about a microsecond at least, and
// each worker gets some eight of them to even out, within 8 to 64 KiB (spec performance section 7). Many: the kernel
// unpacks a panel once per call, so the panel is small and the row block large.
inline constexpr int64_t kMinChunkBytes = 8 << 10;
inline constexpr int64_t kMaxChunkBytes = 64 << 10;
inline constexpr int64_t kChunksPerWorker = 8;
inline constexpr int64_t kManyRowsPanel = 64;
// Outputs of a chunk fill whole cache lines, and quantised blocks of 32 stay in one chunk.
inline constexpr int64_t kPanelGranule = 32;
// Quantised activations of a row block. They need not stay in L2: a panel meets them a few rows at a time, and each row
// is met by a whole panel. Larger blocks unpack the weights less often.
inline constexpr int64_t kRowBlockBytes = 2 << 20;

inline int64_t round_up(int64_t n, int64_t granule) { return (n + granule - 1) / granule * granule; }
inline int64_t n_parts(int64_t n, int64_t part) { return (n + part - 1) / part; }

// The order in which chunks of weights are taken: from as many ranges as there are workers, in turn. Workers that are
// equally fast then each read one run of memory from beginning to end, and what is fetched ahead of one chunk is of use
// for the next.
inline int64_t chunk_in_turn(int64_t chunk, int64_t n_chunks, int64_t n_workers) {
  const int64_t range = chunk % n_workers;
  return range * (n_chunks / n_workers) + std::min(range, n_chunks % n_workers) + chunk / n_workers;
}

// `step_bytes`: of the weights that the whole step reads.
inline int64_t few_rows_panel(const tensor::WeightView& weight, int64_t step_bytes, int n_workers) {
  const int64_t bytes =
      std::clamp(step_bytes / (int64_t{n_workers} * kChunksPerWorker), kMinChunkBytes, kMaxChunkBytes);
  return round_up(std::max<int64_t>(1, bytes / static_cast<int64_t>(weight.row_bytes)), kPanelGranule);
}

inline int64_t row_block(int64_t cols, kernels::ActFormat format) {
  const int64_t bytes = format == kernels::ActFormat::kF32 ? cols * 4 : cols;
  return std::max<int64_t>(32, kRowBlockBytes / bytes / 32 * 32);
}

}  // namespace tempo9::backends::cpu
