// What passes have to read of memory, by arithmetic: the figure beside a machine's bandwidth.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "models/model.h"

namespace tempo9::engine {

class ReadBytes {
 public:
  // `layers`: of the cache.
  ReadBytes(const models::Model& model, const backends::Backend& backend, std::span<const tensor::KvLayerSpec> layers,
            tensor::KvType type);

  // Weights that a pass reads, each once: matrices as they are stored, looked-up rows, and of experts those that so
  // many rows can be expected to choose.
  uint64_t weights(int64_t n_rows, int64_t n_outputs) const;
  // K and V that the rows of a sequence read whose last one is before token `end`, each once.
  uint64_t kv(int64_t end) const;

 private:
  struct ExpertLayer {
    uint64_t bytes = 0;       // of all experts
    double used_share = 0.0;  // of them, that one row chooses
  };
  struct KvLayer {
    int64_t window = 0;
    double token_bytes = 0.0;
  };

  uint64_t batch_bytes_ = 0;   // read by every pass
  uint64_t output_bytes_ = 0;  // by passes with logits
  uint64_t row_bytes_ = 0;     // by each row
  std::vector<ExpertLayer> experts_;
  std::vector<KvLayer> kv_layers_;
};

}  // namespace tempo9::engine
