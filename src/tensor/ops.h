// The operations a model is made of, as plain data. Backends give them meaning; graph/ builds lists of them.
// Every value is a matrix of f32: one row per batch row (or per wanted output), `cols` columns.
#pragma once

#include <cstdint>
#include <variant>

namespace tempo9::tensor {

using ValueId = int32_t;   // index into Program::values
using WeightId = int32_t;  // index into Program::weights
inline constexpr int32_t kNone = -1;

// out = table[token] * scale
struct Embed {
  WeightId table = kNone;
  ValueId out = kNone;
  float scale = 1.0f;
};

// out = x / sqrt(mean(x^2) + eps) * weight, over each run of `group` columns on its own (a head, or the whole row);
// `weight` has `group` elements and may be absent.
struct RmsNorm {
  ValueId x = kNone;
  WeightId weight = kNone;
  ValueId out = kNone;
  float eps = 0.0f;
  int64_t group = 0;
};

// out = weight * x (+ bias). The weight's type decides the arithmetic (docs/decisions, numeric contract).
struct MatMul {
  ValueId x = kNone;
  WeightId weight = kNone;
  WeightId bias = kNone;
  ValueId out = kNone;
};

// out = a + b
struct Add {
  ValueId a = kNone;
  ValueId b = kNone;
  ValueId out = kNone;
};

// Which elements of a head form pair i: (2i, 2i+1) or (i, i + n_rot/2).
enum class RopePairs : uint8_t { kInterleaved, kHalves };

// Rotates each head of x by its row's position. Angle of pair i: position * frequency[i], with the frequencies (scaling
// and rope_freqs included) worked out by the model; cos and sin are multiplied by `magnitude`.
struct Rope {
  ValueId x = kNone;
  ValueId out = kNone;
  int32_t frequencies = kNone;  // index into Program::rope_frequencies, n_rot / 2 values
  int64_t head_dim = 0;
  int64_t n_rot = 0;  // leading elements of a head that take part
  RopePairs pairs = RopePairs::kHalves;
  float magnitude = 1.0f;
};

// Stores K and V of each row at the row's slot.
struct KvWrite {
  ValueId k = kNone;
  ValueId v = kNone;
  int32_t kv_layer = 0;
};

// out = softmax(scale * q k^T) v over the slots j <= i of the row's own sequence, and i - j < window if window > 0.
// Query head h reads KV head h * n_kv_heads / n_heads. Runs after the KvWrite of the same layer.
struct Attention {
  ValueId q = kNone;
  ValueId out = kNone;
  int32_t kv_layer = 0;
  int64_t n_heads = 0;
  float scale = 1.0f;
  int64_t window = 0;    // 0: all earlier tokens
  float softcap = 0.0f;  // 0: none; else s = c * tanh(s / c) before masking
  WeightId sinks = kNone;
};

enum class Activation : uint8_t { kSilu, kGeluTanh };

// out = activation(gate) * up
struct GatedActivation {
  ValueId gate = kNone;
  ValueId up = kNone;
  ValueId out = kNone;
  Activation activation = Activation::kSilu;
};

// out = the rows of x whose logits are wanted.
struct SelectOutputs {
  ValueId x = kNone;
  ValueId out = kNone;
};

// out = cap * tanh(x / cap)
struct SoftCap {
  ValueId x = kNone;
  ValueId out = kNone;
  float cap = 0.0f;
};

using Op = std::variant<Embed, RmsNorm, MatMul, Add, Rope, KvWrite, Attention, GatedActivation, SelectOutputs, SoftCap>;

}  // namespace tempo9::tensor
