// Attention over pages of the KV cache (spec performance section 6): page formats, and softmax in one fixed order.
//
// Keys come in tiles of 32, which are the pages, and tiles in spans of 16 (512 tokens), aligned at slot 0. A span
// yields a softmax state (max, sum, weighted values) per query vector; states of spans are merged in ascending order,
// always. So neither the split over threads nor the rows that share a call can change a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kv_view.h"

namespace tempo9::kernels {

inline constexpr int64_t kSpanPages = 16;
inline constexpr int64_t kSpanTokens = kSpanPages * tensor::kPageTokens;

struct AttentionShape {
  int64_t n_heads = 0;  // a multiple of n_kv_heads; query head h reads KV head h * n_kv_heads / n_heads
  int64_t n_kv_heads = 0;
  int64_t k_head_dim = 0;
  int64_t v_head_dim = 0;
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: none
  int64_t window = 0;    // 0: all earlier tokens
};

// Query rows of one sequence and the pages they look at. Rows of several sequences may look at a span together if all
// of them see it whole and it has the same pages for all; their slots need not ascend then.
struct AttentionRows {
  const float* q = nullptr;  // row r, query head h: q + r * q_stride + h * k_head_dim
  int64_t q_stride = 0;
  const int32_t* slots = nullptr;  // ascending; row r sees the slots j <= slots[r], within the window
  const int32_t* ends = nullptr;   // if there: ascending; row r sees j < ends[r], which is above slots[r]
  int64_t n_rows = 0;
  const int32_t* pages = nullptr;  // of the sequence, as in tensor::PageTable
  const std::byte* k = nullptr;    // page p: k + p * k_page_bytes
  const std::byte* v = nullptr;
  size_t k_page_bytes = 0;
  size_t v_page_bytes = 0;
  std::byte* scratch = nullptr;  // kQ8_0: attention_scratch_bytes of the calling thread, 64-byte aligned
};

// Softmax states of the query vectors of one KV head: vector i is row i / group, head i % group of the KV head's group
// of n_heads / n_kv_heads. A vector that has seen no key has max = -infinity.
struct AttentionState {
  float* max = nullptr;
  float* sum = nullptr;
  float* values = nullptr;  // v_head_dim per vector
};

// Kernels for one KV type. Page formats per type:
//   kF16  K: per KV head [k_head_dim][32] halves (a tile's tokens are lanes); V: per KV head [32][v_head_dim] halves.
//         What is stored is clamped to the finite range, not-a-number included: the unwritten part of a page that is
//         used again meets probabilities of exactly 0, which only finite values survive.
//   kF32  the same with floats: exact, for comparison, and twice as large.
//   kQ8_0 int8 codes with a half scale d for each token and 32 columns, where D columns are head_dim rounded up to
//   whole
//         32s and those beyond head_dim are 0. K: per KV head codes [D / 4][32 tokens][4 columns], then scales
//         [D / 32][32 tokens]; V: per KV head codes [32 tokens][D], then scales [D / 32][32 tokens].
//         d is amax / 127 as a half, a code the nearest integer to x * (1 / d) in [-127, 127]; what is not finite is
//         clamped first. Query vectors become codes too, with f32 scales (contract C7), and scores follow C1:
//         s = fma(f32(dot of 32 codes), d_k * d_q, s). Of values, d * p is the weight: v = fma(d * p, f32(code), v).
struct AttentionKernels {
  // Stores one token's K and V (n_kv_heads heads each) into slot `slot_in_page` of its pages.
  void (*write)(const AttentionShape& shape, const float* k, const float* v, std::byte* k_page, std::byte* v_page,
                int64_t slot_in_page);
  // out = the states of all vectors of `kv_head` over the tokens [512 span, 512 (span + 1)).
  void (*attend_span)(const AttentionShape& shape, const AttentionRows& rows, int64_t kv_head, int64_t span,
                      const AttentionState& out);
  // Adds the state of a later span to `total`.
  void (*merge)(const AttentionShape& shape, int64_t n_vectors, const AttentionState& part,
                const AttentionState& total);
  // out = values / sum of row r, head h at out + r * out_stride + h * v_head_dim, for the heads of `kv_head`. `sinks`
  // (one per query head, or null) take part in the softmax as a last element without a value.
  void (*finish)(const AttentionShape& shape, int64_t n_rows, int64_t kv_head, const AttentionState& state,
                 const float* sinks, float* out, int64_t out_stride);
};

// Columns of a head as kQ8_0 stores them.
inline int64_t padded_head_dim(int64_t head_dim) { return (head_dim + 31) / 32 * 32; }

// Bytes of one page of `shape`'s K and V.
inline size_t head_page_bytes(int64_t head_dim, tensor::KvType type) {
  switch (type) {
    case tensor::KvType::kF32:
      return static_cast<size_t>(head_dim * tensor::kPageTokens) * sizeof(float);
    case tensor::KvType::kF16:
      return static_cast<size_t>(head_dim * tensor::kPageTokens) * sizeof(uint16_t);
    case tensor::KvType::kQ8_0:
      break;
  }
  const int64_t dim = padded_head_dim(head_dim);
  return static_cast<size_t>(tensor::kPageTokens) * static_cast<size_t>(dim + dim / 32 * 2);
}
inline size_t k_page_bytes(const AttentionShape& shape, tensor::KvType type) {
  return static_cast<size_t>(shape.n_kv_heads) * head_page_bytes(shape.k_head_dim, type);
}
inline size_t v_page_bytes(const AttentionShape& shape, tensor::KvType type) {
  return static_cast<size_t>(shape.n_kv_heads) * head_page_bytes(shape.v_head_dim, type);
}

// Room for the codes of `n_vectors` query vectors: D bytes each, and an f32 scale and an int16 sum per 32.
inline size_t attention_scratch_bytes(const AttentionShape& shape, int64_t n_vectors) {
  const int64_t dim = padded_head_dim(shape.k_head_dim);
  return static_cast<size_t>(n_vectors * (dim + dim / 32 * 6));
}

}  // namespace tempo9::kernels
