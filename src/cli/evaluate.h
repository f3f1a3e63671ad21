// Logits of given token ids, pass by pass through a KV cache: what `tempo9 eval` and the golden tests run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "backends/backend.h"
#include "base/result.h"
#include "models/model.h"

namespace tempo9::cli {

// Rows of images among the tokens (spec models 13).
struct ImageRows {
  int32_t token = 0;   // stands in the tokens once per row of an image
  int64_t height = 0;  // rows of every image, row after row
  int64_t width = 0;
  tensor::MatView<const float> embeddings;  // a row for each such token
};

struct EvaluateOptions {
  int64_t chunk = 512;                         // rows of one pass at most
  std::optional<tensor::KvType> kv_type = {};  // empty: the backend's default
  std::optional<ImageRows> images = {};
};

// Takes the next wanted rows of logits; the view is valid during the call.
using LogitsSink = std::function<Result<void>(tensor::MatView<const float>)>;

// Runs `tokens` as one sequence and hands the logits of `rows` (ascending indices into `tokens`) to `sink`, in order.
// Errors: kInvalidInput for tokens or rows out of range, and what the backend, the cache and the sink return.
Result<void> evaluate(backends::Backend& backend, const models::Model& model, std::span<const int32_t> tokens,
                      std::span<const int32_t> rows, const EvaluateOptions& options, const LogitsSink& sink);

// The same of the model's draft block: row i is what it drafts after `tokens[i + 1]`, from the hidden state at
// `tokens[i]`. Errors: kUnsupported for a model without one; kInvalidInput for the last row, too.
Result<void> evaluate_draft(backends::Backend& backend, const models::Model& model, std::span<const int32_t> tokens,
                            std::span<const int32_t> rows, const EvaluateOptions& options, const LogitsSink& sink);

// How far logits are from reference logits, over all rows.
struct Agreement {
  double relative_rms = 0.0;   // rms(logits - reference) / rms(reference)
  double worst_row_rms = 0.0;  // the same, of the worst single row
  double mean_kl = 0.0;        // mean over rows of KL(softmax(reference) || softmax(logits)), in nats
  int64_t n_rows = 0;
  int64_t n_argmax_equal = 0;
};
// REQUIRES: equal sizes, a multiple of n_vocab.
Agreement compare_logits(std::span<const float> logits, std::span<const float> reference, int64_t n_vocab);

}  // namespace tempo9::cli
