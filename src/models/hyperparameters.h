// Reading an architecture's metadata keys with the checks that hostile files ask for (spec gguf 1.6, M2 to M4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"

namespace tempo9::models {

// Widths and counts in a file are at most this, so that products of two fit easily. (Real ones stay below 2^19.)
inline constexpr int64_t kMaxCount = int64_t{1} << 24;

// Reads keys named "{architecture}.{key}". Every error names the whole key and the value. `metadata` must outlive it.
class Keys {
 public:
  Keys(const gguf::Metadata& metadata, std::string_view architecture);

  const gguf::Metadata& metadata() const { return metadata_; }
  std::string full_name(std::string_view key) const { return prefix_ + std::string(key); }

  // A required count in [1, max].
  Result<int64_t> read_count(std::string_view key, int64_t max = kMaxCount) const;
  // An optional count in [0, max].
  Result<int64_t> find_count(std::string_view key, int64_t fallback, int64_t max = kMaxCount) const;
  // A count in [min, kMaxCount] for each layer, stored as one number or as an array; required when `fallback` is empty.
  Result<std::vector<int64_t>> read_counts(std::string_view key, int64_t n_layers,
                                           const std::vector<int64_t>& fallback = {}, int64_t min = 1) const;
  // Finite and, as a float too, above zero.
  Result<double> read_positive(std::string_view key) const;
  Result<double> find_positive(std::string_view key, double fallback) const;
  // Finite and at least zero.
  Result<double> find_non_negative(std::string_view key, double fallback) const;
  // Finite.
  Result<double> find_finite(std::string_view key, double fallback) const;

 private:
  const gguf::Metadata& metadata_;
  std::string prefix_;
};

// The heads of an attention layer.
struct HeadShape {
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t k_head_dim = 0;
  int64_t v_head_dim = 0;

  int64_t q_cols() const { return n_heads * k_head_dim; }
  int64_t k_cols() const { return n_kv_heads * k_head_dim; }
  int64_t v_cols() const { return n_kv_heads * v_head_dim; }
  int64_t out_cols() const { return n_heads * v_head_dim; }
};

// What every decoder has (spec models section 2).
struct DecoderParams {
  struct Layer {
    int64_t n_heads = 0;
    int64_t n_kv_heads = 0;
    int64_t n_ff = 0;  // 0: the file gives none
  };

  int64_t context_length = 0;
  int64_t n_embd = 0;
  int64_t k_head_dim = 0;
  int64_t v_head_dim = 0;
  int64_t n_rot = 0;  // leading elements of a head that rope turns; even, at most k_head_dim
  float rms_eps = 0.0f;
  std::vector<Layer> layers;

  int64_t n_layers() const { return static_cast<int64_t>(layers.size()); }
  HeadShape heads(size_t layer) const {
    return {.n_heads = layers[layer].n_heads,
            .n_kv_heads = layers[layer].n_kv_heads,
            .k_head_dim = k_head_dim,
            .v_head_dim = v_head_dim};
  }
};

// Where architectures differ in what a file may leave out.
struct DecoderOptions {
  bool needs_feed_forward = true;         // feed_forward_length; off where all layers are mixtures of experts
  bool allows_layers_without_kv = false;  // attention.head_count_kv of 0
  bool needs_head_dims = false;  // attention.key_length and value_length: the width over the heads would be wrong
};
Result<DecoderParams> read_decoder_params(const Keys& keys, const DecoderOptions& options = {});

// Which layers see a sliding window (attention.sliding_window_pattern): stored as a flag per layer, or as a period
// whose last layer is a full one. The period is `default_period` when the key is absent; without one it is required.
Result<std::vector<bool>> read_sliding_layers(const Keys& keys, int64_t n_layers,
                                              std::optional<int64_t> default_period);

// kUnsupported when the file asks for a mixture of experts.
Result<void> refuse_experts(const Keys& keys);

}  // namespace tempo9::models
