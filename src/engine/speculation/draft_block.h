// Runs the block of a model that drafts (models::DraftModel). Decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "engine/float_rows.h"
#include "engine/row_positions.h"
#include "kv/cache.h"
#include "models/model.h"
#include "tensor/views.h"

namespace tempo9::engine {

// Engine thread only. The block's K and V lie in the pages of the main model, as further layers: pages that are shared,
// kept, copied or given back take the block's part along.
class DraftBlock {
 public:
  // The KV layers of a cache for both: the main model's, then the block's.
  static std::vector<tensor::KvLayerSpec> kv_layers(const models::Model& model);

  // `cache` has those layers. All arguments, and what the executable needs of them, must outlive the block.
  // REQUIRES: model.draft.
  static Result<DraftBlock> create(backends::Backend& backend, const models::Model& model, kv::Cache& cache,
                                   const backends::CompileOptions& limits);

  int64_t max_rows() const { return max_rows_; }
  int64_t hidden_cols() const { return hidden_in_.cols(); }

  // --- A pass: add its rows, then run. Rows of a sequence are adjacent and ascend.
  void clear();
  // The hidden state of the token at `slot`, its position, and the token that follows it. Where an image follows, the
  // block is told its placeholder: it guesses text only.
  void add_row(kv::SequenceId id, int64_t slot, const RowPosition& position, int32_t next_token,
               std::span<const float> hidden);
  // The draft of the row added last is wanted.
  void want_draft() { outputs_.push_back(static_cast<int32_t>(tokens_.size()) - 1); }
  int64_t n_rows() const { return static_cast<int64_t>(tokens_.size()); }

  struct Output {
    tensor::MatView<float> logits;        // a row per wanted draft
    tensor::MatView<const float> hidden;  // the same: to draft the token after
  };
  // Valid until the next run. REQUIRES: pages for the rows' slots.
  Output run();

 private:
  DraftBlock() = default;

  kv::Cache* cache_ = nullptr;
  std::unique_ptr<backends::Executable> executable_;
  size_t n_main_layers_ = 0;
  int64_t max_rows_ = 0;
  FloatRows hidden_in_;
  FloatRows hidden_out_;
  FloatRows logits_;

  std::vector<kv::SequenceId> ids_;
  std::vector<int32_t> tokens_, sequences_, slots_, outputs_;
  RowPositions positions_;
};

}  // namespace tempo9::engine
