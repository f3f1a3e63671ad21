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
  block.hidden_cols_ = program.values[static_cast<size_t>(program.hidden)].cols;
  block.n_vocab_ = program.values[static_cast<size_t>(program.logits)].cols;
  block.max_rows_ = limits.max_rows;
  const auto reserve = [](int64_t rows, int64_t cols) {
    return Buffer::reserve(static_cast<size_t>(rows * cols) * sizeof(float));
  };
  T9_TRY(executable, backend.compile(program, model.draft->weights, limits));
  T9_TRY(hidden_in, reserve(limits.max_rows, block.hidden_cols_));
  T9_TRY(hidden_out, reserve(limits.max_rows, block.hidden_cols_));
  T9_TRY(logits, reserve(limits.max_outputs, block.n_vocab_));
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
  outputs_.clear();
}

void DraftBlock::add_row(kv::SequenceId id, int64_t slot, int32_t next_token, std::span<const float> hidden) {
  T9_CHECK(n_rows() < max_rows_);
  if (ids_.empty() || ids_.back() != id) ids_.push_back(id);
  std::ranges::copy(hidden, view(hidden_in_, max_rows_, hidden_cols_).row(n_rows()));
  tokens_.push_back(next_token);
  sequences_.push_back(static_cast<int32_t>(ids_.size()) - 1);
  slots_.push_back(static_cast<int32_t>(slot));
}

DraftBlock::Output DraftBlock::run() {
  tensor::KvView kv = cache_->view(ids_);
  kv.layers = kv.layers.subspan(n_main_layers_);
  const tensor::Batch batch{.tokens = tokens_,
                            .sequences = sequences_,
                            .slots = slots_,
                            .positions = slots_,
                            .outputs = outputs_,
                            .kv = kv,
                            .hidden = view(hidden_in_, n_rows(), hidden_cols_)};
  const tensor::MatView<float> logits = view(logits_, batch.n_outputs(), n_vocab_);
  const tensor::MatView<float> hidden = view(hidden_out_, n_rows(), hidden_cols_);
  executable_->run(batch, {.logits = logits, .hidden = hidden});
  return {.logits = logits, .hidden = hidden};
}

}  // namespace tempo9::engine
