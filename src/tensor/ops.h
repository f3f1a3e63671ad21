// The operations a model is made of, as plain data. Backends give them meaning; graph/ builds lists of them.
// Every value is a matrix of f32: one row per batch row (or per wanted output), `cols` columns.
#pragma once

#include <cstdint>
#include <variant>

namespace tempo9::tensor {

using ValueId = int32_t;   // index into Program::values
using WeightId = int32_t;  // index into Program::weights
inline constexpr int32_t kNone = -1;

// out = table[token] * scale; in rows that have an embedding (Batch::embedding), its first columns
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
  int32_t axes = kNone;         // index into Program::rope_axes: the position plane of each pair; kNone: plane 0
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
// With Batch::visible_ends: over j < that of the row instead of j <= i.
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

enum class Activation : uint8_t {
  kSilu,
  kGeluTanh,
  kSigmoid,
  kClampedSwiglu,  // gpt-oss: g = min(gate, 7), u = clamp(up, -7, 7); g * sigmoid(1.702 g) * (u + 1)
};

// out = activation(gate) * up (kClampedSwiglu: as given there)
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

// out = x * factor (times the one element of `by`, if given)
struct Scale {
  ValueId x = kNone;
  WeightId by = kNone;
  ValueId out = kNone;
  float factor = 1.0f;
};

// out = columns [begin, begin + count) of each run of `group` columns of x, runs side by side.
struct TakeColumns {
  ValueId x = kNone;
  ValueId out = kNone;
  int64_t group = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

// out = the columns of a, then those of b.
struct Concat {
  ValueId a = kNone;
  ValueId b = kNone;
  ValueId out = kNone;
};

// out = sigmoid(gate) * x, where gate has one column.
struct GateRows {
  ValueId gate = kNone;
  ValueId x = kNone;
  ValueId out = kNone;
};

// out = x * (1 + beta * ln(1 + floor(position / period)))
struct PositionScale {
  ValueId x = kNone;
  ValueId out = kNone;
  float beta = 0.0f;
  int64_t period = 0;
};

// Mixture of experts. The n_used largest of the row's router logits are chosen (ties: the lower index), weighted by a
// softmax over the chosen, times `weight_scale` and, if given, the expert's element of `expert_scale`. Each chosen
// expert e gives down_e * act(gate_e * x (+ bias), up_e * x (+ bias)) (+ bias). The weighted results are added in
// descending order of the logits, so that sums never depend on how the work was spread.
struct Experts {
  ValueId x = kNone;
  ValueId router = kNone;  // one column per expert
  ValueId out = kNone;
  WeightId gate = kNone;  // depth = number of experts; with `up` absent: gate rows, then as many up rows
  WeightId up = kNone;
  WeightId down = kNone;
  WeightId gate_bias = kNone;  // one row per expert
  WeightId up_bias = kNone;
  WeightId down_bias = kNone;
  WeightId expert_scale = kNone;
  int64_t n_used = 0;
  float weight_scale = 1.0f;
  Activation activation = Activation::kSilu;
};

// out = silu of a causal convolution over each sequence's own rows, column by column: tap kernel-1 is the current row.
// Rows before the first come from the sequence's state (zero for a new sequence), which keeps the last kernel-1 rows of
// x. weight: cols = kernel, rows = columns of x.
struct CausalConv {
  ValueId x = kNone;
  WeightId weight = kNone;
  ValueId out = kNone;
  int32_t state_layer = 0;
};

// Gated delta net (spec models 7.4, steps 3 to 6), one token after another, with the sequence's matrices S as state.
// qkv: n_k_heads * k_dim columns of Q, as many of K, n_v_heads * v_dim of V. beta and alpha: one column per value head.
// a: -exp(A_log), dt: bias, both per value head. Value head h uses key head h mod n_k_heads. out: n_v_heads * v_dim.
struct DeltaNet {
  ValueId qkv = kNone;
  ValueId beta = kNone;
  ValueId alpha = kNone;
  WeightId a = kNone;
  WeightId dt = kNone;
  ValueId out = kNone;
  int32_t state_layer = 0;
  int64_t n_k_heads = 0;
  int64_t n_v_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
};

// out = Batch::hidden: rows made by another program (the main model's hidden states, for a draft block).
struct Input {
  ValueId out = kNone;
  int64_t cols = 0;
};

// out = x; in rows that have an embedding (Batch::embedding), plus its columns from `begin` on
struct AddEmbedding {
  ValueId x = kNone;
  ValueId out = kNone;
  int64_t begin = 0;
};

using Op =
    std::variant<Embed, RmsNorm, MatMul, Add, Rope, KvWrite, Attention, GatedActivation, SelectOutputs, SoftCap, Scale,
                 TakeColumns, Concat, GateRows, PositionScale, Experts, CausalConv, DeltaNet, Input, AddEmbedding>;

}  // namespace tempo9::tensor
