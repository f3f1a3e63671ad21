#include "engine/runner.h"

#include <algorithm>

namespace tempo9::engine {

// Of a row of an image: models with embeddings for each layer take these of this token (spec models 13.5).
constexpr int32_t kPadToken = 0;

Result<Runner> Runner::create(backends::Backend& backend, const models::Model& model, kv::Cache& cache,
                              const backends::CompileOptions& limits, bool keeps_hidden) {
  Runner runner;
  runner.cache_ = &cache;
  T9_TRY(executable, backend.compile(model.program, model.weights, limits));
  T9_TRY(logits, FloatRows::reserve(limits.max_outputs, model.info.n_vocab));
  T9_TRY(embeddings, FloatRows::reserve(limits.max_rows, models::embedding_cols(model.program)));
  runner.embeddings_ = std::move(embeddings);
  if (keeps_hidden) {
    const int64_t cols = model.program.values[static_cast<size_t>(model.program.hidden)].cols;
    T9_TRY(hidden, FloatRows::reserve(limits.max_rows, cols));
    runner.hidden_ = std::move(hidden);
  }
  runner.executable_ = std::move(executable);
  runner.logits_ = std::move(logits);
  return runner;
}

void Runner::begin(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences) {
  ids_.clear();
  tokens_.clear();
  sequences_.clear();
  slots_.clear();
  visible_ends_.clear();
  positions_.clear();
  embedding_of_row_.clear();
  n_embedded_ = 0;
  next_part_ = 0;
  longest_part_ = {};
  outputs_.clear();
  for (const StepPlan::Rows& rows : plan.rows) {
    const Sequence& sequence = *sequences[static_cast<size_t>(rows.sequence)];
    for (int64_t slot = rows.begin; slot < rows.end; ++slot) {
      const int64_t draft = slot - sequence.n_tokens();
      tokens_.push_back(draft < 0 ? sequence.tokens[static_cast<size_t>(slot)]
                                  : sequence.drafts[static_cast<size_t>(draft)]);
      sequences_.push_back(static_cast<int32_t>(ids_.size()));
      slots_.push_back(static_cast<int32_t>(slot));
      visible_ends_.push_back(static_cast<int32_t>(sequence.images.visible_end(slot)));
      positions_.add(sequence.images.position_at(slot));
      gather_image_row(sequence.images.row_at(slot));
    }
    const auto n_rows = static_cast<int32_t>(tokens_.size());
    for (int64_t i = rows.n_outputs(); i > 0; --i) outputs_.push_back(n_rows - static_cast<int32_t>(i));
    ids_.push_back(sequence.pages.value());
    if (rows.n_drafts > 0) cache_->begin_trial(ids_.back());
  }
}

// `row`: of the row added last; empty when it is a token's.
void Runner::gather_image_row(std::span<const float> row) {
  embedding_of_row_.push_back(row.empty() ? -1 : static_cast<int32_t>(n_embedded_));
  if (row.empty()) return;
  ++n_embedded_;
  std::ranges::copy(row, embeddings_.first(n_embedded_).row(n_embedded_ - 1));
  tokens_.back() = kPadToken;
}

// Views of the cache are those of now.
tensor::Batch Runner::batch() {
  tensor::Batch batch{.tokens = tokens_,
                      .sequences = sequences_,
                      .slots = slots_,
                      .positions = positions_.view(),
                      .outputs = outputs_,
                      .kv = cache_->view(ids_),
                      .states = cache_->states(ids_)};
  if (n_embedded_ > 0) {
    batch.embedding_of_row = embedding_of_row_;
    batch.embeddings = embeddings_.first(n_embedded_);
    batch.visible_ends = visible_ends_;
  }
  return batch;
}

backends::RunOutputs Runner::outputs() {
  backends::RunOutputs outputs{.logits = logits_.first(std::ssize(outputs_))};
  if (hidden_.cols() > 0) outputs.hidden = hidden_.first(std::ssize(tokens_));
  return outputs;
}

Runner::Output Runner::run(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences) {
  begin(plan, sequences);
  const backends::RunOutputs made = outputs();
  executable_->run(batch(), made);
  return {.logits = made.logits, .hidden = made.hidden};
}

std::optional<Runner::Output> Runner::advance(Milliseconds budget) {
  const Clock::time_point started = Clock::now();
  const tensor::Batch rows = batch();
  const backends::RunOutputs made = outputs();
  if (next_part_ == 0) {
    n_parts_ = executable_->begin_parts(rows);
    row_times_.resize(static_cast<size_t>(n_parts_));
  }
  for (Clock::time_point now = started;;) {
    executable_->run_part(rows, made, next_part_);
    const Milliseconds spent = Clock::now() - now;
    now = Clock::now();
    row_times_[static_cast<size_t>(next_part_)] = spent / static_cast<double>(rows.n_rows());
    longest_part_ = std::max(longest_part_, spent);
    if (++next_part_ == n_parts_) return Output{.logits = made.logits, .hidden = made.hidden};
    const Milliseconds next = row_times_[static_cast<size_t>(next_part_)] * static_cast<double>(rows.n_rows());
    if (now - started + next > budget) return std::nullopt;
  }
}

void Runner::settle(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences) {
  if (std::ranges::none_of(plan.rows, [](const StepPlan::Rows& rows) { return rows.n_drafts > 0; })) return;
  n_replayed_.clear();
  for (const StepPlan::Rows& rows : plan.rows) {
    const int64_t n_computed = sequences[static_cast<size_t>(rows.sequence)]->n_computed;
    const bool keeps_all = n_computed == rows.end;
    if (rows.n_drafts > 0) cache_->end_trial(ids_[n_replayed_.size()], keeps_all);
    n_replayed_.push_back(keeps_all ? 0 : n_computed - rows.begin);
  }
  const tensor::StateView states = cache_->states(ids_);
  const bool has_replays = std::ranges::any_of(n_replayed_, [](int64_t n) { return n > 0; });
  if (has_replays && !states.states.empty()) executable_->replay(states, n_replayed_);
}

}  // namespace tempo9::engine
