// Carries a plan's rows through the model. Decides nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "engine/float_rows.h"
#include "engine/row_positions.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kv/cache.h"
#include "models/model.h"
#include "tensor/views.h"

namespace tempo9::engine {

using Milliseconds = std::chrono::duration<double, std::milli>;

// Engine thread only.
class Runner {
 public:
  // `cache`, and what the executable needs of `backend` and `model`, must outlive the runner.
  static Result<Runner> create(backends::Backend& backend, const models::Model& model, kv::Cache& cache,
                               const backends::CompileOptions& limits, bool keeps_hidden);

  // What a pass gives. Valid, and may be overwritten, until the next one.
  struct Output {
    tensor::MatView<float> logits;        // n_outputs() rows of each entry of plan.rows, in their order
    tensor::MatView<const float> hidden;  // a row per row of the plan; empty unless the runner keeps them
  };
  // REQUIRES: each sequence named in plan.rows has pages for its rows.
  Output run(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences);

  // The same in pieces: other runners may run, and other sequences come and go, between these calls. `plan` has no
  // drafts, and its sequences keep their places and pages until the end.
  void begin(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences);
  // Goes on for about `budget`, by one part of the pass at least. The output once the pass is complete.
  std::optional<Output> advance(Milliseconds budget);
  // Of the parts of the pass so far.
  Milliseconds longest_part() const { return longest_part_; }
  // Of the last run: takes back the recurrent state of rows that do not stay. `plan` and `sequences` are those of the
  // run; each sequence's n_computed says how far its rows stay.
  void settle(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences);

  // As Executable::waited_s.
  double waited_s() const { return executable_->waited_s(); }

 private:
  Runner() = default;
  void gather_image_row(std::span<const float> row);
  tensor::Batch batch();
  backends::RunOutputs outputs();

  kv::Cache* cache_ = nullptr;
  std::unique_ptr<backends::Executable> executable_;
  FloatRows logits_;
  FloatRows hidden_;  // without columns: they are not kept
  FloatRows embeddings_;

  // The batch, kept to reuse their memory.
  std::vector<kv::SequenceId> ids_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> sequences_;
  std::vector<int32_t> slots_;
  std::vector<int32_t> visible_ends_;
  RowPositions positions_;
  std::vector<int32_t> embedding_of_row_;
  int64_t n_embedded_ = 0;  // rows of embeddings_ in use
  std::vector<int32_t> outputs_;
  std::vector<int64_t> n_replayed_;

  // Of a pass in pieces.
  int64_t n_parts_ = 0;
  int64_t next_part_ = 0;
  Milliseconds longest_part_{};
  std::vector<Milliseconds> row_times_;  // that each part took per row in the last pass
};

}  // namespace tempo9::engine
