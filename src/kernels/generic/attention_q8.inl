// Attention over pages of Q8_0 (kernels/attention.h): what differs from attention.inl, which is included before, as are
// quantize_codes and quantize_block of 32 values and score_codes of the ISA.

#pragma once

namespace tempo9::kernels::T9_ISA {

namespace {

// What takes the place of Element.
struct Q8Codes {};

// One KV head's part of a page.
template <class Byte>
struct Q8Head {
  using Code = std::conditional_t<std::is_const_v<Byte>, const int8_t, int8_t>;
  using Scale = std::conditional_t<std::is_const_v<Byte>, const uint16_t, uint16_t>;
  Code* codes;
  Scale* scales;

  Q8Head(Byte* page, int64_t kv_head, int64_t head_dim)
      : codes(reinterpret_cast<Code*>(page) +
              kv_head * static_cast<int64_t>(head_page_bytes(head_dim, tensor::KvType::kQ8_0))),
        scales(reinterpret_cast<Scale*>(codes + padded_head_dim(head_dim) * kTile)) {}
};

}  // namespace

// Weights of a block of 32 columns: p times the tokens' scales.
static void scale_weights(const float* p, int64_t n, const uint16_t* scales, float* weights) {
  for (int64_t c = 0; c < kTileVecs; ++c) {
    const Vec d = load_f16(scales + 16 * c);
    for (int64_t i = 0; i < n; ++i) store(weights + i * kTile + 16 * c, mul(load(p + i * kTile + 16 * c), d));
  }
}

// Query vectors and columns of V whose sums are in registers together: of the ISA's tile, but no wider than a block.
constexpr int kCodeColumns = kValueColumns < 2 ? kValueColumns : 2;
constexpr int kCodeVectors = kValueVectors * (kValueColumns / kCodeColumns);

// values = values * factor + sum of p * d * code, block by block of 32 columns. Codes are int8_t, or those as floats.
template <class Code>
static void value_codes(const float* p, const float* factors, int64_t n, const Code* codes, const uint16_t* scales,
                        int64_t head_dim, float* values) {
  const int64_t dim = padded_head_dim(head_dim);
  alignas(64) float weights[kBlock * kTile];
  for (int64_t begin = 0; begin < head_dim; begin += 32, scales += kTile) {
    scale_weights(p, n, scales, weights);
    const int64_t end = head_dim < begin + 32 ? head_dim : begin + 32;
    in_groups<kCodeVectors>(
        n, [&]<int kN>(int64_t first) __attribute__((always_inline)) {
          const float* w = weights + first * kTile;
          float* to = values + first * head_dim;
          int64_t col = begin;
          for (; col + 16 * kCodeColumns <= end; col += 16 * kCodeColumns) {
            value_tile<kN, kCodeColumns>(w, factors + first, codes + col, dim, to + col, head_dim, 16);
          }
          for (; col < end; col += 16) {
            value_tile<kN, 1>(w, factors + first, codes + col, dim, to + col, head_dim, end - col);
          }
        });
  }
}

template <class Code>
static void attend_codes(const AttentionShape& shape, const AttentionRows& rows, const QueryCodes& queries,
                         int64_t tile, int64_t begin, int64_t end, const Q8Head<const std::byte>& k,
                         const Code* v_codes, const uint16_t* v_scales, const AttentionState& state) {
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = end - i < kBlock ? end - i : kBlock;
    alignas(64) float scores[kBlock * kTile];
    float factors[kBlock];
    score_codes(queries, i, n, k.codes, k.scales, scores);
    softmax_block(shape, rows, tile, i, n, scores, factors, state);
    value_codes(scores, factors, n, v_codes, v_scales, shape.v_head_dim, state.values + i * shape.v_head_dim);
  }
}

template <>
void attend_tile<Q8Codes>(const AttentionShape& shape, const AttentionRows& rows, int64_t kv_head, int64_t tile,
                          int64_t begin, int64_t end, const AttentionState& state) {
  const auto page = static_cast<size_t>(rows.pages[tile]);
  const Q8Head k(rows.k + page * rows.k_page_bytes, kv_head, shape.k_head_dim);
  const Q8Head v(rows.v + page * rows.v_page_bytes, kv_head, shape.v_head_dim);
  const QueryCodes queries(rows.scratch, shape, rows.n_rows * (shape.n_heads / shape.n_kv_heads));
  const int64_t v_dim = padded_head_dim(shape.v_head_dim);
  if (end - begin >= kWidenFrom && v_dim <= kWidenHeadDim) {
    alignas(64) float v_wide[kWidenHeadDim * kTile];
    widen(v.codes, v_dim * kTile, v_wide);
    attend_codes<float>(shape, rows, queries, tile, begin, end, k, v_wide, v.scales, state);
  } else {
    attend_codes<int8_t>(shape, rows, queries, tile, begin, end, k, v.codes, v.scales, state);
  }
}

// n <= 32 values, and zeros up to 32.
T9_VEC const float* padded_block(const float* x, int64_t n, float* padded) {
  if (n >= 32) return x;
  store(padded, load_n(x, n < 16 ? n : 16));
  store(padded + 16, load_n(n < 16 ? x : x + 16, n < 16 ? 0 : n - 16));
  return padded;
}

static void quantize_queries(const AttentionShape& shape, const AttentionRows& rows, int64_t kv_head,
                             const QueryCodes& out) {
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  alignas(64) float padded[32];
  int64_t block = 0;
  for (int64_t i = 0; i < rows.n_rows * group; ++i) {
    const float* q = rows.q + i / group * rows.q_stride + (kv_head * group + i % group) * shape.k_head_dim;
    for (int64_t begin = 0; begin < shape.k_head_dim; begin += 32, ++block) {
      const float* x = padded_block(q + begin, shape.k_head_dim - begin, padded);
      quantize_block<32, 32>(x, out.scales + block, out.codes + 32 * block, out.sums + block);
    }
  }
}

static void attend_span_q8(const AttentionShape& shape, const AttentionRows& rows, int64_t kv_head, int64_t span,
                           const AttentionState& out) {
  quantize_queries(shape, rows, kv_head,
                   QueryCodes(rows.scratch, shape, rows.n_rows * (shape.n_heads / shape.n_kv_heads)));
  attend_span<Q8Codes>(shape, rows, kv_head, span, out);
}

// n <= 32 values of a head as codes and a half, which is finite.
static void quantize_finite(const float* x, int64_t n, int8_t* codes, uint16_t* scale) {
  const Vec largest = splat(127.0f * 65504.0f);
  const Vec least = splat(-127.0f * 65504.0f);
  alignas(64) float finite[32];
  const float* from = padded_block(x, n, finite);
  for (int64_t i = 0; i < 32; i += 16) store(finite + i, min(max(load(from + i), least), largest));
  uint16_t halves[16];
  store_f16(halves, splat(greatest_magnitude<32>(finite) / 127.0f));
  *scale = halves[0];
  const float d = first(load_f16(halves));
  int16_t sum;
  quantize_codes<32, 32>(finite, d > 0.0f ? 1.0f / d : 0.0f, codes, &sum);
}

static void write_q8(const AttentionShape& shape, const float* k, const float* v, std::byte* k_page, std::byte* v_page,
                     int64_t slot) {
  alignas(64) int8_t codes[32];
  for (int64_t h = 0; h < shape.n_kv_heads; ++h) {
    const Q8Head to(k_page, h, shape.k_head_dim);
    const float* head = k + h * shape.k_head_dim;
    for (int64_t c = 0; c < shape.k_head_dim; c += 32) {
      quantize_finite(head + c, shape.k_head_dim - c, codes, to.scales + c + slot);
      for (int64_t i = 0; i < 32; i += 4) __builtin_memcpy(to.codes + (c + i) * kTile + 4 * slot, codes + i, 4);
    }
  }
  const int64_t v_dim = padded_head_dim(shape.v_head_dim);
  for (int64_t h = 0; h < shape.n_kv_heads; ++h) {
    const Q8Head to(v_page, h, shape.v_head_dim);
    const float* head = v + h * shape.v_head_dim;
    for (int64_t c = 0; c < shape.v_head_dim; c += 32) {
      quantize_finite(head + c, shape.v_head_dim - c, to.codes + slot * v_dim + c, to.scales + c + slot);
    }
  }
}

extern const AttentionKernels kAttentionQ8;
constinit const AttentionKernels kAttentionQ8 = {
    .write = write_q8, .attend_span = attend_span_q8, .merge = merge, .finish = finish};

}  // namespace tempo9::kernels::T9_ISA
