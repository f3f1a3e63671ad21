// The loops over views, one set per instruction set, behind tables of functions. Backends choose a set once and split
// the work; a kernel never starts or waits for a thread, allocates or locks.
//
// All sets give the same bits: docs/decisions has the numeric contract (spec performance section 2). Layout of the
// folder: reference/ plain C++ that defines "right"; generic/ text compiled once per ISA; isa/<name>/ one set each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/kv_view.h"
#include "tensor/ops.h"
#include "tensor/views.h"

namespace tempo9::kernels {

using tensor::IndexRange;
using tensor::MatView;
using tensor::WeightView;

struct AttentionKernels;
struct RecurrentKernels;

// How a weight type wants its activations.
enum class ActFormat : uint8_t {
  kF32,   // float weights: no quantisation
  kA32,   // int8, one scale per 32 values (32-value block types)
  kA256,  // int8, one scale per 256 values (K-quants, IQ4_XS)
};
ActFormat act_format(tensor::DType weight);

// Activation rows as int8: x ~ d * q with q in [-127, 127]. Row r's values are at q + r * cols; its scales at
// d + r * (cols / block), its sums of q at sums + r * (cols / sum_group). A product takes `rows` of them: those that
// `picked` lists, or the first ones when it is null.
struct QuantizedRows {
  int8_t* q = nullptr;
  float* d = nullptr;
  int16_t* sums = nullptr;  // kA32: per 32 values; kA256: per 16 values
  int64_t rows = 0;
  int64_t cols = 0;
  ActFormat format = ActFormat::kA32;
  const int32_t* picked = nullptr;

  int64_t source(int64_t i) const { return picked == nullptr ? i : picked[i]; }
  int64_t block() const { return format == ActFormat::kA256 ? 256 : 32; }
  int64_t sum_group() const { return format == ActFormat::kA256 ? 16 : 32; }
};

// Activation rows as floats: row r is at x + r * stride. `picked` as in QuantizedRows.
struct FloatRows {
  const float* x = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  const int32_t* picked = nullptr;

  const float* row(int64_t i) const { return x + (picked == nullptr ? i : picked[i]) * stride; }
};

// Matrix products. out(i, r) = dot(weight row r, activation row i) for r in `weight_rows` and every activation row;
// nothing else of `out` (activation rows x weight.rows) is written. Same bits for any split of rows, any number of
// activation rows and either layout of the weight. `scratch` has at least matmul_scratch_bytes(weight) bytes, 64-byte
// aligned, of the calling thread.
using MatMulQuant = void (*)(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x,
                             MatView<float> out, std::byte* scratch);
using MatMulFloat = void (*)(const WeightView& weight, IndexRange weight_rows, const FloatRows& x, MatView<float> out,
                             std::byte* scratch);

struct MatMulKernels {
  // Quantises rows [rows.begin, rows.end) of x (contract C7: d = amax / 127, q = rne(x * (1/d)); zero rows give d = 0).
  void (*quantize)(MatView<const float> x, IndexRange rows, const QuantizedRows& out);
  MatMulQuant (*quant)(tensor::DType weight);     // never null for a quantised usable type
  MatMulFloat (*floating)(tensor::DType weight);  // F32, F16, BF16
  // True when the type has a kernel written for this ISA, false when it is unpacked generically.
  bool (*is_native)(tensor::DType weight);
  // For either layout.
  size_t (*scratch_bytes)(const WeightView& weight);
  // Weight rows a unit of work should be a multiple of.
  int64_t row_granule;
  // Rows of a tile of Layout::kTiled (kernels/tiles.h); 0: this set multiplies weights in place only.
  int64_t tile_rows;
  // Writes `rows` of a weight that lies in place as tiles, rows.size() * row_bytes bytes. Rows of a stack of matrices
  // are counted through. REQUIRES: can_tile; both ends of `rows` are multiples of tile_rows.
  void (*write_tiles)(const WeightView& weight, IndexRange rows, std::byte* out);
};

// Everything that is neither a matrix product, nor attention (kernels/attention.h), nor recurrent
// (kernels/recurrent.h).
struct RowKernels {
  // One row: out[i] = x[i] / sqrt(mean + eps) * weight[i % group], per run of `group` columns; weight may be null.
  void (*rms_norm)(const float* x, const float* weight, float* out, int64_t cols, int64_t group, float eps);
  // out = a + b
  void (*add)(const float* a, const float* b, float* out, int64_t n);
  // out = x * factor
  void (*scale)(const float* x, float factor, float* out, int64_t n);
  // out = sigmoid(gate) * x
  void (*gate_row)(float gate, const float* x, float* out, int64_t n);
  // out = x * (1 + beta * ln(1 + floor(position / period))); position >= 0
  void (*position_scale)(const float* x, int32_t position, float beta, int64_t period, float* out, int64_t n);
  // out = activation(gate) * up
  void (*gated)(tensor::Activation activation, const float* gate, const float* up, float* out, int64_t n);
  // out = cap * tanh(x / cap)
  void (*soft_cap)(const float* x, float* out, float cap, int64_t n);
  // The n_used largest of the logits in descending order (ties: the lower index first) and their softmax among
  // themselves. 1 <= n_used <= n.
  void (*choose_experts)(const float* logits, int64_t n, int64_t n_used, int32_t* experts, float* weights);
  // out = sum of weights[i] * (row picked[i] of `rows`), i ascending
  void (*weighted_sum)(const float* weights, const int32_t* picked, int64_t n_picked, MatView<const float> rows,
                       float* out);
  // Cosine and sine, times magnitude, of position * frequency for each pair.
  void (*rope_angles)(int32_t position, const float* frequencies, int64_t n_pairs, float magnitude, float* cosines,
                      float* sines);
  // Rotates every head of one row; cosines and sines have n_rot / 2 values. out may be x.
  void (*rope)(const float* x, float* out, int64_t n_heads, int64_t head_dim, int64_t n_rot, tensor::RopePairs pairs,
               const float* cosines, const float* sines);
};

// One instruction set.
struct Isa {
  std::string_view name;         // "scalar", "avx2", "avx512"
  std::string_view description;  // "AVX-512 with VNNI"
  bool (*runs_here)();           // this machine has all the features it needs
  const MatMulKernels* matmul;
  const RowKernels* rows;
  const AttentionKernels* attention_f16;
  const AttentionKernels* attention_f32;
  const AttentionKernels* attention_q8;
  const RecurrentKernels* recurrent;

  const AttentionKernels& attention(tensor::KvType type) const {
    if (type == tensor::KvType::kQ8_0) return *attention_q8;
    return type == tensor::KvType::kF32 ? *attention_f32 : *attention_f16;
  }
};

// From slowest to fastest; an explicit list generated from isa/CMakeLists.txt. All are linked in, some may not run
// here.
std::span<const Isa> all_isas();
const Isa* find_isa(std::string_view name);
const Isa& best_isa();

}  // namespace tempo9::kernels
