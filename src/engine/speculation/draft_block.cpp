#include "engine/speculation/draft_block.h"

#include <algorithm>

#include "base/check.h"

namespace tempo9::engine {

std::vector<tensor::KvLayerSpec> DraftBlock::kv_layers(const models::Model& model) {
  std::vector<tensor::KvLayerSpec> layers = model.program.kv_layers;
  layers.insert(layers.end(), model.draft->program.kv_layers.begin(), model.draft->program.kv_layers.end());
  return layers;
}

Result<DraftBlock> DraftBlock::create(backends::Backend& backend, const models::Model& model, kv::Cache& cache,
                                      const backends::CompileOptions& limits) {
  const tensor::Program& program = model.draft->program;
  DraftBlock block;
  block.cache_ = &cache;
  block.n_main_layers_ = model.program.kv_layers.size();
  block.max_rows_ = limits.max_rows;
  const auto cols = [&](tensor::ValueId value) { return program.values[static_cast<size_t>(value)].cols; };
  T9_TRY(executable, backend.compile(program, model.draft->weights, limits));
  T9_TRY(hidden_in, FloatRows::reserve(limits.max_rows, cols(program.hidden)));
  T9_TRY(hidden_out, FloatRows::reserve(limits.max_outputs, cols(program.hidden)));
  T9_TRY(logits, FloatRows::reserve(limits.max_outputs, cols(program.logits)));
  block.executable_ = std::move(executable);
  block.hidden_in_ = std::move(hidden_in);
  block.hidden_out_ = std::move(hidden_out);
  block.logits_ = std::move(logits);
  return block;
}

void DraftBlock::clear() {
  ids_.clear();
  tokens_.clear();
  sequences_.clear();
  slots_.clear();
  positions_.clear();
  outputs_.clear();
}

void DraftBlock::add_row(kv::SequenceId id, int64_t slot, const RowPosition& position, int32_t next_token,
                         std::span<const float> hidden) {
  T9_CHECK(n_rows() < max_rows_);
  if (ids_.empty() || ids_.back() != id) ids_.push_back(id);
  std::ranges::copy(hidden, hidden_in_.first(max_rows_).row(n_rows()));
  tokens_.push_back(next_token);
  sequences_.push_back(static_cast<int32_t>(ids_.size()) - 1);
  slots_.push_back(static_cast<int32_t>(slot));
  positions_.add(position);
}

DraftBlock::Output DraftBlock::run() {
  tensor::KvView kv = cache_->view(ids_);
  kv.layers = kv.layers.subspan(n_main_layers_);
  const tensor::Batch batch{.tokens = tokens_,
                            .sequences = sequences_,
                            .slots = slots_,
                            .positions = positions_.view(),
                            .outputs = outputs_,
                            .kv = kv,
                            .hidden = hidden_in_.first(n_rows())};
  const tensor::MatView<float> logits = logits_.first(batch.n_outputs());
  const tensor::MatView<float> hidden = hidden_out_.first(batch.n_outputs());
  executable_->run(batch, {.logits = logits, .hidden = hidden});
  return {.logits = logits, .hidden = hidden};
}

}  // namespace tempo9::engine
