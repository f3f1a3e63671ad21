// What the families share in reading a projector: metadata that all have, tensors by name with their sizes checked.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "models/hyperparameters.h"
#include "vision/tower_spec.h"

namespace tempo9::vision {

// The first mistake about a tensor is kept for status(); from then on tensors come back empty, so a family binds all
// and asks once.
class ProjectorReader {
 public:
  // `file` must outlive it.
  explicit ProjectorReader(const gguf::File& file) : file_(file), keys_(file.metadata(), "clip") {}

  const models::Keys& keys() const { return keys_; }
  const gguf::Metadata& metadata() const { return file_.metadata(); }
  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  // What every projector has: patch, width, ffn_width, blocks (empty ones), heads, eps, mean and std, out_width.
  Result<void> read_common(TowerSpec& spec);
  int64_t out_width() const { return out_width_; }

  // `{name}.weight` with ne = [cols, rows], `{name}.bias` where the file has one, and bounds
  // (`{name}.input_min` …).
  Linear linear(const std::string& name, int64_t cols, int64_t rows);
  // The same of ne = [rows, cols].
  Linear transposed_linear(const std::string& tensor, int64_t cols, int64_t rows);
  // `v.patch_embd.weight`, ne = [patch, patch, 3, width]; with `.weight.1`, for the second frame, their sum: a still
  // image is both frames.
  Linear patch_embed(const TowerSpec& spec);
  // `{name}.weight`, and `{name}.bias` if `has_bias`.
  Norm norm(const std::string& name, int64_t n, bool has_bias);
  // All values as floats; kMissing tensors are empty if `is_optional`.
  std::vector<float> values(const std::string& name, std::initializer_list<int64_t> ne, bool is_optional = false);
  // Blocks' attention: `attn_qkv` or `attn_q`, `attn_k` and `attn_v`, then `attn_out`.
  void read_attention(const TowerSpec& spec, const std::string& prefix, Block& block);

  // Rows of a table: the last but one dimension's size, 0 when the tensor is absent.
  int64_t n_rows(const std::string& name) const;

  void set_failure(ErrorCode code, std::string message);
  Result<void> status() const;
  std::vector<std::unique_ptr<std::vector<float>>> take_owned() { return std::move(owned_); }

 private:
  const gguf::TensorInfo* require(const std::string& name, std::initializer_list<int64_t> ne);
  float scalar(const std::string& name, float fallback);
  std::vector<float> decode(const gguf::TensorInfo& info) const;
  // A matrix of f32 in memory of its own.
  tensor::WeightView own(std::vector<float> values, int64_t cols, int64_t rows);

  const gguf::File& file_;
  models::Keys keys_;
  int64_t out_width_ = 0;
  std::vector<std::unique_ptr<std::vector<float>>> owned_;
  std::optional<Error> failure_;
};

// Where the pairs of a head are: element i with i + head_dim / 2, the first half of the pairs by y, the second by x.
std::vector<RotaryPair> rotary_across_head(int64_t head_dim, double base);
// The first half of the head by x, the second by y, pairs (i, i + head_dim / 4) inside each.
std::vector<RotaryPair> rotary_within_halves(int64_t head_dim, double base);

}  // namespace tempo9::vision
