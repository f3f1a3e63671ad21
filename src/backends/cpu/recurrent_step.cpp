// Recurrent steps. A sequence's rows go through a kernel together, in order; columns of the convolution and heads of
// the delta net do not see each other and are what the threads share.
#include <algorithm>

#include "backends/cpu/chunk_sizes.h"
#include "backends/cpu/pass.h"
#include "backends/cpu/product.h"
#include "backends/cpu/trial_rows.h"

namespace tempo9::backends::cpu {
namespace {

// Columns of a chunk: 4 KiB of a row in one piece (docs/experiments.md). 8192 columns are enough for eight threads.
constexpr int64_t kConvCols = 1024;

float* state_of(const Pass& pass, int32_t state_layer, const RowBlock& rows) {
  return pass.batch.states.state(state_layer, pass.batch.sequences[static_cast<size_t>(rows.begin)]);
}

tensor::IndexRange range_of(const RowBlock& rows) { return {rows.begin, rows.begin + rows.rows}; }

}  // namespace

int64_t n_chunks(const ConvStep& step, const Pass& pass, int64_t phase) {
  return phase == 0 ? std::ssize(pass.sequence_rows) * n_parts(step.cols, kConvCols) : 0;
}

void run_chunk(const ConvStep& step, const Pass& pass, int64_t, int64_t chunk, int) {
  const int64_t n_blocks = n_parts(step.cols, kConvCols);
  const int64_t index = chunk / n_blocks;
  const RowBlock& rows = pass.sequence_rows[static_cast<size_t>(index)];
  const int64_t begin = chunk % n_blocks * kConvCols;
  const tensor::IndexRange cols = {begin, std::min(step.cols, begin + kConvCols)};
  if (pass.trial.has(index)) pass.trial.carry_over(step, pass, index, cols);
  pass.isa.recurrent->causal_conv(slice(pass.view(step.x, step.cols), range_of(rows)), step.taps, step.kernel, cols,
                                  state_of(pass, step.state_layer, rows),
                                  slice(pass.view(step.out, step.cols), range_of(rows)));
  if (pass.trial.has(index)) pass.trial.keep(step, pass, index, cols);
}

int64_t n_chunks(const DeltaNetStep& step, const Pass& pass, int64_t phase) {
  return phase == 0 ? std::ssize(pass.sequence_rows) * step.shape.n_v_heads : 0;
}

void run_chunk(const DeltaNetStep& step, const Pass& pass, int64_t, int64_t chunk, int worker) {
  const kernels::DeltaNetShape& shape = step.shape;
  const int64_t index = chunk / shape.n_v_heads;
  const RowBlock& rows = pass.sequence_rows[static_cast<size_t>(index)];
  const int64_t head = chunk % shape.n_v_heads;
  const int64_t v_cols = shape.n_v_heads * shape.v_dim;
  const auto view = [&](CellId cell, int64_t cols) { return slice(pass.view(cell, cols), range_of(rows)); };
  if (pass.trial.has(index)) {
    pass.trial.carry_over(step, pass, index, head);
    pass.trial.keep(step, pass, index, head);
  }
  float* state = state_of(pass, step.state_layer, rows) + step.state_offset + head * shape.k_dim * shape.v_dim;
  pass.isa.recurrent->delta_net(shape,
                                {.qkv = view(step.qkv, 2 * shape.n_k_heads * shape.k_dim + v_cols),
                                 .beta = view(step.beta, shape.n_v_heads),
                                 .alpha = view(step.alpha, shape.n_v_heads),
                                 .out = view(step.out, v_cols)},
                                head, step.a[head], step.dt[head], state,
                                reinterpret_cast<float*>(pass.workers[static_cast<size_t>(worker)].scratch));
}

}  // namespace tempo9::backends::cpu
