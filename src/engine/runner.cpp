#include "engine/runner.h"

namespace tempo9::engine {

Result<Runner> Runner::create(backends::Backend& backend, const models::Model& model, kv::Cache& cache,
                              const backends::CompileOptions& limits) {
  T9_TRY(executable, backend.compile(model.program, model.weights, limits));
  const size_t row_bytes = static_cast<size_t>(model.info.n_vocab) * sizeof(float);
  T9_TRY(logits, Buffer::reserve(static_cast<size_t>(limits.max_outputs) * row_bytes));
  return Runner(cache, std::move(executable), std::move(logits), model.info.n_vocab);
}

void Runner::gather(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences) {
  ids_.clear();
  tokens_.clear();
  sequences_.clear();
  slots_.clear();
  outputs_.clear();
  for (const StepPlan::Rows& rows : plan.rows) {
    const Sequence& sequence = *sequences[static_cast<size_t>(rows.sequence)];
    for (int64_t slot = rows.begin; slot < rows.end; ++slot) {
      tokens_.push_back(sequence.tokens[static_cast<size_t>(slot)]);
      sequences_.push_back(static_cast<int32_t>(ids_.size()));
      slots_.push_back(static_cast<int32_t>(slot));
    }
    if (rows.wants_logits) outputs_.push_back(static_cast<int32_t>(tokens_.size()) - 1);
    ids_.push_back(sequence.pages.value());
  }
}

tensor::MatView<float> Runner::run(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences) {
  gather(plan, sequences);
  const tensor::Batch batch{.tokens = tokens_,
                            .sequences = sequences_,
                            .slots = slots_,
                            .positions = slots_,
                            .outputs = outputs_,
                            .kv = cache_->view(ids_),
                            .states = cache_->states(ids_)};
  const tensor::MatView<float> logits{.data = reinterpret_cast<float*>(logits_.data()),
                                      .rows = batch.n_outputs(),
                                      .cols = n_vocab_,
                                      .stride = n_vocab_};
  executable_->run(batch, {.logits = logits});
  return logits;
}

}  // namespace tempo9::engine
