// Carries a plan's rows through the model. Decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "base/buffer.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kv/cache.h"
#include "models/model.h"
#include "tensor/views.h"

namespace tempo9::engine {

// Engine thread only.
class Runner {
 public:
  // `cache`, and what the executable needs of `backend` and `model`, must outlive the runner.
  static Result<Runner> create(backends::Backend& backend, const models::Model& model, kv::Cache& cache,
                               const backends::CompileOptions& limits);

  // One pass. The result has a row of logits for each entry of plan.rows that wants them, in their order; it is valid,
  // and may be overwritten, until the next run.
  // REQUIRES: each sequence named in plan.rows has pages for its rows.
  tensor::MatView<float> run(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences);

 private:
  Runner(kv::Cache& cache, std::unique_ptr<backends::Executable> executable, Buffer logits, int64_t n_vocab)
      : cache_(&cache), executable_(std::move(executable)), logits_(std::move(logits)), n_vocab_(n_vocab) {}
  void gather(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences);

  kv::Cache* cache_;
  std::unique_ptr<backends::Executable> executable_;
  Buffer logits_;  // max_outputs rows; those that are never used cost nothing
  int64_t n_vocab_;

  // The batch, kept to reuse their memory.
  std::vector<kv::SequenceId> ids_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> sequences_;
  std::vector<int32_t> slots_;
  std::vector<int32_t> outputs_;
};

}  // namespace tempo9::engine
