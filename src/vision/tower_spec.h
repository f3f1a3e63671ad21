// What a vision tower computes, as data: the families (families/*.cpp) fill it in from a projector's metadata and
// tensors, forward.cpp runs it. Where families differ there is a field, never a question for the family's name.
// Formulas: spec models section 12.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tensor/views.h"

namespace tempo9::vision {

enum class NormKind : uint8_t { kLayer, kRms };
enum class Activation : uint8_t { kGeluTanh, kGeluErf, kGeluQuick, kSilu };
enum class Filter : uint8_t { kBilinear, kBicubic };

// How an image becomes a grid of patches.
enum class ResizeRule : uint8_t {
  kSmart,    // sides rounded to whole cells, pixels between two limits (Qwen)
  kBudget,   // scaled up or down to fill a number of patches (Gemma 4)
  kStretch,  // to a square of a fixed size (Gemma 3)
};

// Learned positions, added to the patches.
enum class PositionTable : uint8_t {
  kNone,
  kInterpolated,  // one row per cell of a square grid, resampled to the image's (bilinear, corners aligned)
  kPerAxis,       // rows of x, then rows of y: the sum of both
};

// How the last rows become tokens of the language model.
enum class Head : uint8_t {
  kMergeMlp,    // norm, merge x merge patches side by side, two linear layers (Qwen)
  kPoolLinear,  // mean of merge x merge patches, norm, one linear layer (Gemma)
};

struct Norm {
  std::vector<float> weight;  // empty: none
  std::vector<float> bias;    // empty: none
};

// y = weight x + bias, with x and y held within bounds. The weight lies in the projector's file, or in the spec's own
// memory (Projector::owned).
struct Linear {
  std::string name;  // of the weight's tensor
  tensor::WeightView weight;
  std::vector<float> bias;  // empty: none
  float input_min = -std::numeric_limits<float>::infinity();
  float input_max = std::numeric_limits<float>::infinity();
  float output_min = -std::numeric_limits<float>::infinity();
  float output_max = std::numeric_limits<float>::infinity();

  bool is_present() const { return weight.data != nullptr; }
};

struct Block {
  Norm norm1;
  std::vector<Linear> qkv;  // one of 3 * width rows, or Q, K and V
  Norm q_norm, k_norm;      // per head, where TowerSpec::norms_heads
  Linear out;
  Norm after_attention;  // where TowerSpec::norms_branches
  Norm norm2;
  Linear gate;  // absent without gated activations
  Linear up;
  Linear down;
  Norm after_ffn;
  float scale = 1.0f;        // of the block's result
  bool is_windowed = false;  // attention within windows only
};

// A second output of the tower, taken after a block.
struct Deepstack {
  int64_t block = 0;
  Norm norm;
  Linear fc1;
  Linear fc2;
};

// Elements `first` and `second` of a head turn by position[axis] * frequency.
struct RotaryPair {
  int32_t first = 0;
  int32_t second = 0;
  int32_t axis = 0;  // 0: y, 1: x
  double frequency = 0.0;
};

struct TowerSpec {
  std::string projector_type;

  // From an image to patches.
  ResizeRule resize = ResizeRule::kSmart;
  Filter filter = Filter::kBicubic;
  int64_t patch = 0;       // pixels a side
  int64_t merge = 0;       // patches a side of one token
  int64_t min_pixels = 0;  // kSmart
  int64_t max_pixels = 0;  // kSmart
  int64_t max_tokens = 0;  // kBudget
  int64_t side = 0;        // kStretch: patches
  std::array<float, 3> mean{};
  std::array<float, 3> std{1.0f, 1.0f, 1.0f};

  // From patches to rows.
  int64_t width = 0;
  int64_t ffn_width = 0;
  int64_t n_heads = 0;
  float eps = 0.0f;
  NormKind norm = NormKind::kLayer;
  Activation activation = Activation::kGeluTanh;
  float attention_scale = 0.0f;
  bool norms_heads = false;  // RMS norm of each head of q, k (with weights) and v (without)
  bool norms_branches = false;
  int64_t window = 0;  // tokens a side; 0: no block is windowed
  PositionTable positions = PositionTable::kNone;
  int64_t position_rows = 0;  // kInterpolated: a side; kPerAxis: of an axis
  std::vector<RotaryPair> rotary;
  Linear patch_embed;  // 3 * patch * patch columns: channel, y, x
  std::vector<float> position_table;
  std::vector<Block> blocks;
  std::vector<Deepstack> deepstack;  // ascending

  // From rows to tokens.
  Head head = Head::kMergeMlp;
  bool has_post_norm = false;
  Norm post_norm;
  Linear fc1;  // kMergeMlp
  Linear fc2;  // kMergeMlp; kPoolLinear: the only one
  float pool_scale = 1.0f;
  std::vector<float> pool_bias;  // subtracted after the scale; empty: none
  std::vector<float> pool_gain;  // multiplied after that
  Norm pool_norm;                // RMS, of kPoolLinear

  int64_t head_dim() const { return width / n_heads; }
  int64_t patch_values() const { return 3 * patch * patch; }
  int64_t out_width() const { return fc2.weight.rows; }
  int64_t embedding_cols() const { return out_width() * (1 + std::ssize(deepstack)); }
};

// Calls f(linear) for every linear layer but the patch embedding, in the order of the pass.
template <class Spec, class F>
void for_each_linear(Spec& spec, F&& f) {
  for (auto& block : spec.blocks) {
    for (auto& linear : block.qkv) f(linear);
    for (auto* linear : {&block.out, &block.gate, &block.up, &block.down}) {
      if (linear->is_present()) f(*linear);
    }
  }
  for (auto& extra : spec.deepstack) {
    f(extra.fc1);
    f(extra.fc2);
  }
  if (spec.fc1.is_present()) f(spec.fc1);
  f(spec.fc2);
}

}  // namespace tempo9::vision
