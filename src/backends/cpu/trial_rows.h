// What recurrent layers read of rows that may be taken back (tensor::StateView), kept so that a part of those rows can
// be run again from the state before them. It is read after the convolution, so replaying costs one sweep over the
// states and no projection.
#pragma once

#include <span>
#include <vector>

#include "backends/cpu/pass.h"
#include "base/buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace tempo9::backends::cpu {

class TrialRows {
 public:
  TrialRows() = default;
  // Room for `max_rows` rows of every recurrent layer of `plan`, paid for as it is used. Keeps pointers to the weights
  // that the plan's steps read.
  static Result<TrialRows> create(const Plan& plan, size_t n_layers, int64_t max_rows);

  // Before each pass. REQUIRES: no more rows on trial than max_rows.
  void begin(const tensor::Batch& batch, std::span<const RowBlock> sequence_rows);

  // --- While a pass runs; `index` is that of sequence_rows.
  bool has(int64_t index) const { return trials_[static_cast<size_t>(index)].n_rows > 0; }
  // Copies columns of the convolution's part of the state, or a head's matrix, to the state that the pass advances.
  void carry_over(const ConvStep& step, const Pass& pass, int64_t index, tensor::IndexRange cols) const;
  void carry_over(const DeltaNetStep& step, const Pass& pass, int64_t index, int64_t head) const;
  // Keeps the rows' columns that a chunk has read or made.
  void keep(const ConvStep& step, const Pass& pass, int64_t index, tensor::IndexRange cols) const;
  void keep(const DeltaNetStep& step, const Pass& pass, int64_t index, int64_t head) const;

  // Executable::replay.
  void replay(const tensor::StateView& states, std::span<const int64_t> n_rows, const kernels::Isa& isa,
              ThreadPool& pool, std::span<const WorkerMemory> workers) const;

 private:
  class Replay;

  // Columns of a kept row: x of the convolution, what it made of it, then beta and alpha of each value head.
  struct Layer {
    ConvStep conv;
    DeltaNetStep net;
    size_t offset = 0;  // of its rows in memory_, in floats
    int64_t row_floats() const { return 2 * conv.cols + 2 * net.shape.n_v_heads; }
  };
  struct Trial {
    int32_t sequence = 0;  // of the batch
    int64_t first = 0;     // kept row
    int64_t n_rows = 0;    // 0: not on trial
  };

  float* rows_of(const Layer& layer, const Trial& trial) const {
    return kept_ + layer.offset + static_cast<size_t>(trial.first * layer.row_floats());
  }

  std::vector<Layer> layers_;  // by state layer
  int64_t max_rows_ = 0;
  Buffer memory_;
  float* kept_ = nullptr;      // in memory_; disjoint parts are written by the threads of a pass
  std::vector<Trial> trials_;  // of the last pass, one per entry of sequence_rows
};

}  // namespace tempo9::backends::cpu
