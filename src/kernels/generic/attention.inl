// Attention over pages (kernels/attention.h) over the ISA's vec.h: all of it for F16 and F32 elements, and what
// attention_q8.inl shares. Included by isa/<name>/attention*.cpp after vec.h, which gives the register tiles:
// kScoreVectors query vectors by kScoreKeys * 16 keys, and kValueVectors query vectors by kValueColumns * 16 columns of
// V. Tiles do not change the order of any sum.

#pragma once

#include "kernels/generic/functions.inl"

namespace tempo9::kernels::T9_ISA {

constexpr int64_t kTile = tensor::kPageTokens;
constexpr int64_t kTileVecs = kTile / 16;
// Query vectors that go through a tile together: their scores stay in L1.
constexpr int64_t kBlock = 8;
constexpr float kMinusInfinity = -__builtin_inff();

// 16 elements of a page, or the first `n` of them with zeros after.
T9_VEC Vec load_element(const uint16_t* p) { return load_f16(p); }
T9_VEC Vec load_element(const float* p) { return load(p); }
T9_VEC Vec load_element(const int8_t* p) { return load_int8(p); }
T9_VEC Vec load_element_n(const uint16_t* p, int64_t n) { return load_f16_n(p, n); }
T9_VEC Vec load_element_n(const float* p, int64_t n) { return load_n(p, n); }
T9_VEC Vec load_element_n(const int8_t* p, int64_t) { return load_int8(p); }  // pages have zeros beyond the last column

T9_VEC float larger(float a, float b) { return a > b ? a : b; }

// Scores of kN query vectors against a tile: one fma chain per key over the columns, ascending.
template <int kN, class Element>
static void score_tile(const float* const* q, const Element* k, int64_t head_dim, float* scores) {
  for (int64_t key = 0; key < kTileVecs; key += kScoreKeys) {
    Vec acc[kN][kScoreKeys];
#pragma GCC unroll 8
    for (int n = 0; n < kN; ++n) {
#pragma GCC unroll 2
      for (int c = 0; c < kScoreKeys; ++c) acc[n][c] = splat(0.0f);
    }
    const Element* lanes = k + key * 16;
    for (int64_t d = 0; d < head_dim; ++d, lanes += kTile) {
      Vec keys[kScoreKeys];
#pragma GCC unroll 2
      for (int c = 0; c < kScoreKeys; ++c) keys[c] = load_element(lanes + 16 * c);
#pragma GCC unroll 8
      for (int n = 0; n < kN; ++n) {
        const Vec query = splat(q[n][d]);
#pragma GCC unroll 2
        for (int c = 0; c < kScoreKeys; ++c) acc[n][c] = fma(query, keys[c], acc[n][c]);
      }
    }
#pragma GCC unroll 8
    for (int n = 0; n < kN; ++n) {
#pragma GCC unroll 2
      for (int c = 0; c < kScoreKeys; ++c) store(scores + n * kTile + (key + c) * 16, acc[n][c]);
    }
  }
}

// Calls f.operator()<size>(first) for groups of 8, 4, 3, 2 or 1 of n vectors, at most kMost.
template <int kMost, class F>
T9_VEC void in_groups(int64_t n, F f) {
  for (int64_t first = 0; first < n;) {
    const int64_t left = n - first;
    if (kMost >= 8 && left >= 8) {
      f.template operator()<kMost >= 8 ? 8 : 1>(first);
      first += 8;
    } else if (kMost >= 4 && left >= 4) {
      f.template operator()<kMost >= 4 ? 4 : 1>(first);
      first += 4;
    } else if (kMost >= 3 && left == 3) {
      f.template operator()<kMost >= 3 ? 3 : 1>(first);
      first += 3;
    } else if (kMost >= 2 && left >= 2) {
      f.template operator()<kMost >= 2 ? 2 : 1>(first);
      first += 2;
    } else {
      f.template operator()<1>(first);
      first += 1;
    }
  }
}

template <class Element>
static void score_block(const float* const* q, int64_t n, const Element* k, int64_t head_dim, float* scores) {
  in_groups<kScoreVectors>(
      n, [=]<int kN>(int64_t first)
             __attribute__((always_inline)) { score_tile<kN>(q + first, k, head_dim, scores + first * kTile); });
}

// One past the last slot that a row sees.
T9_VEC int64_t visible_end(const AttentionRows& rows, int64_t row) {
  return rows.ends != nullptr ? rows.ends[row] : rows.slots[row] + 1;
}

// Keys of a tile that a row sees: [begin, end), a part of [0, 32).
struct Visible {
  int64_t begin;
  int64_t end;
};
T9_VEC Visible visible_keys(const AttentionShape& shape, const AttentionRows& rows, int64_t row, int64_t tile_begin) {
  int64_t begin = shape.window > 0 ? rows.slots[row] - shape.window + 1 - tile_begin : 0;
  if (begin < 0) begin = 0;
  int64_t end = visible_end(rows, row) - tile_begin;
  if (end > kTile) end = kTile;
  return {begin, end};
}

// One step of the online softmax: turns a vector's scores into probabilities, exactly 0 where masked, and returns the
// factor that brings what was summed before to the new maximum.
T9_VEC float softmax_step(const AttentionShape& shape, Visible visible, float* scores, float& max, float& sum_of_p) {
  Vec s[kTileVecs];
  const Vec scale = splat(shape.scale);
  for (int64_t c = 0; c < kTileVecs; ++c) {
    s[c] = mul(load(scores + 16 * c), scale);
    if (shape.softcap > 0.0f) {
      const Vec cap = splat(shape.softcap);
      s[c] = mul(cap, tanh(div(s[c], cap)));
    }
    if (visible.begin > 0 || visible.end < kTile) {
      const Vec index = add(lane_indices(), splat(static_cast<float>(16 * c)));
      const Vec masked = splat(kMinusInfinity);
      s[c] = select_less(index, splat(static_cast<float>(visible.begin)), masked, s[c]);
      s[c] = select_less(index, splat(static_cast<float>(visible.end)), s[c], masked);
    }
  }
  const float new_max = larger(max, max_of(T9_ISA::max(s[0], s[1])));
  const float factor = new_max == max ? 1.0f : exp(max - new_max);  // exp(0) is exactly 1
  for (int64_t c = 0; c < kTileVecs; ++c) {
    s[c] = exp(sub(s[c], splat(new_max)));
    store(scores + 16 * c, s[c]);
  }
  max = new_max;
  sum_of_p = __builtin_fmaf(sum_of_p, factor, sum(add(s[0], s[1])));
  return factor;
}

// values = values * factor + sum over the tile's tokens, ascending, of p * v, for kN vectors and kC * 16 columns (or
// the `n_cols` < 16 last ones, with kC = 1). Rows of V are v_stride apart, those of values head_dim.
template <int kN, int kC, class Element>
static void value_tile(const float* p, const float* factors, const Element* v, int64_t v_stride, float* values,
                       int64_t head_dim, int64_t n_cols) {
  Vec acc[kN][kC];
  const bool whole = n_cols >= 16;
#pragma GCC unroll 8
  for (int n = 0; n < kN; ++n) {
#pragma GCC unroll 4
    for (int c = 0; c < kC; ++c) {
      const float* from = values + n * head_dim + 16 * c;
      acc[n][c] = mul(whole ? load(from) : load_n(from, n_cols), splat(factors[n]));
    }
  }
  for (int64_t j = 0; j < kTile; ++j, v += v_stride) {
    Vec value[kC];
#pragma GCC unroll 4
    for (int c = 0; c < kC; ++c) value[c] = whole ? load_element(v + 16 * c) : load_element_n(v, n_cols);
#pragma GCC unroll 8
    for (int n = 0; n < kN; ++n) {
      const Vec weight = splat(p[n * kTile + j]);
#pragma GCC unroll 4
      for (int c = 0; c < kC; ++c) acc[n][c] = fma(weight, value[c], acc[n][c]);
    }
  }
#pragma GCC unroll 8
  for (int n = 0; n < kN; ++n) {
#pragma GCC unroll 4
    for (int c = 0; c < kC; ++c) {
      float* to = values + n * head_dim + 16 * c;
      if (whole) {
        store(to, acc[n][c]);
      } else {
        store_n(to, acc[n][c], n_cols);
      }
    }
  }
}

template <int kN, class Element>
static void value_rows(const float* p, const float* factors, const Element* v, int64_t head_dim, float* values) {
  int64_t col = 0;
  for (; col + 16 * kValueColumns <= head_dim; col += 16 * kValueColumns) {
    value_tile<kN, kValueColumns>(p, factors, v + col, head_dim, values + col, head_dim, 16);
  }
  for (; col < head_dim; col += 16) {
    value_tile<kN, 1>(p, factors, v + col, head_dim, values + col, head_dim, head_dim - col);
  }
}

template <class Element>
static void value_block(const float* p, const float* factors, int64_t n, const Element* v, int64_t head_dim,
                        float* values) {
  in_groups<kValueVectors>(
      n, [=]<int kN>(int64_t first) __attribute__((always_inline)) {
        value_rows<kN>(p + first * kTile, factors + first, v, head_dim, values + first * head_dim);
      });
}

// The softmax steps of the query vectors [first, first + n), of which `scores` has kTile each.
static void softmax_block(const AttentionShape& shape, const AttentionRows& rows, int64_t tile, int64_t first,
                          int64_t n, float* scores, float* factors, const AttentionState& state) {
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  for (int64_t b = 0; b < n; ++b) {
    const Visible visible = visible_keys(shape, rows, (first + b) / group, tile * kTile);
    factors[b] = softmax_step(shape, visible, scores + b * kTile, state.max[first + b], state.sum[first + b]);
  }
}

// The query vectors [begin, end) against one tile, of which their rows see something.
template <class Element>
static void attend_elements(const AttentionShape& shape, const AttentionRows& rows, int64_t kv_head, int64_t tile,
                            int64_t begin, int64_t end, const Element* k, const Element* v,
                            const AttentionState& state) {
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = end - i < kBlock ? end - i : kBlock;
    const float* q[kBlock];
    for (int64_t b = 0; b < n; ++b) {
      q[b] = rows.q + (i + b) / group * rows.q_stride + (kv_head * group + (i + b) % group) * shape.k_head_dim;
    }
    alignas(64) float scores[kBlock * kTile];
    float factors[kBlock];
    score_block(q, n, k, shape.k_head_dim, scores);
    softmax_block(shape, rows, tile, i, n, scores, factors, state);
    value_block(scores, factors, n, v, shape.v_head_dim, state.values + i * shape.v_head_dim);
  }
}

// Halves are widened once for many query vectors: the conversion takes the units that fma needs.
constexpr int64_t kWidenFrom = 4 * kBlock;
constexpr int64_t kWidenHeadDim = 256;
template <class Element>
static void widen(const Element* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += 16) store(to + i, load_element(from + i));  // a tile's rows are 32 elements
}

template <class Element>
static void attend_tile(const AttentionShape& shape, const AttentionRows& rows, int64_t kv_head, int64_t tile,
                        int64_t begin, int64_t end, const AttentionState& state) {
  const auto page = static_cast<size_t>(rows.pages[tile]);
  const auto* k =
      reinterpret_cast<const Element*>(rows.k + page * rows.k_page_bytes) + kv_head * shape.k_head_dim * kTile;
  const auto* v =
      reinterpret_cast<const Element*>(rows.v + page * rows.v_page_bytes) + kv_head * shape.v_head_dim * kTile;
  if constexpr (sizeof(Element) == 2) {
    if (end - begin >= kWidenFrom && shape.k_head_dim <= kWidenHeadDim && shape.v_head_dim <= kWidenHeadDim) {
      alignas(64) float k_wide[kWidenHeadDim * kTile];
      alignas(64) float v_wide[kWidenHeadDim * kTile];
      widen(k, shape.k_head_dim * kTile, k_wide);
      widen(v, shape.v_head_dim * kTile, v_wide);
      attend_elements(shape, rows, kv_head, tile, begin, end, k_wide, v_wide, state);
      return;
    }
  }
  attend_elements(shape, rows, kv_head, tile, begin, end, k, v, state);
}

template <class Element>
static void attend_span(const AttentionShape& shape, const AttentionRows& rows, int64_t kv_head, int64_t span,
                        const AttentionState& out) {
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  for (int64_t i = 0; i < rows.n_rows * group; ++i) {
    out.max[i] = kMinusInfinity;
    out.sum[i] = 0.0f;
  }
  for (int64_t i = 0; i < rows.n_rows * group * shape.v_head_dim; ++i) out.values[i] = 0.0f;
  const int64_t last_end = visible_end(rows, rows.n_rows - 1);
  // The rows that see a tile are adjacent: both ends only move up with the tile.
  int64_t first_row = 0;
  int64_t end_row = shape.window > 0 ? 0 : rows.n_rows;
  for (int64_t tile = span * kSpanPages; tile < (span + 1) * kSpanPages && tile * kTile < last_end; ++tile) {
    while (visible_end(rows, first_row) <= tile * kTile) ++first_row;
    if (shape.window > 0) {
      const int64_t last_key = tile * kTile + kTile - 1;
      while (end_row < rows.n_rows && rows.slots[end_row] - shape.window < last_key) ++end_row;
    }
    if (first_row >= end_row) continue;
    attend_tile<Element>(shape, rows, kv_head, tile, first_row * group, end_row * group, out);
  }
}

// to = to * to_factor + from * from_factor, the second product fused.
T9_VEC void add_scaled(float* to, float to_factor, const float* from, float from_factor, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const int64_t count = n - i < 16 ? n - i : 16;
    const Vec scaled = mul(load_n(to + i, count), splat(to_factor));
    store_n(to + i, fma(splat(from_factor), load_n(from + i, count), scaled), count);
  }
}

static void merge(const AttentionShape& shape, int64_t n_vectors, const AttentionState& part,
                  const AttentionState& total) {
  const int64_t head_dim = shape.v_head_dim;
  for (int64_t i = 0; i < n_vectors; ++i) {
    if (part.max[i] == kMinusInfinity) continue;
    float* to = total.values + i * head_dim;
    const float* from = part.values + i * head_dim;
    if (total.max[i] == kMinusInfinity) {
      total.max[i] = part.max[i];
      total.sum[i] = part.sum[i];
      for (int64_t c = 0; c < head_dim; ++c) to[c] = from[c];
      continue;
    }
    const float new_max = larger(total.max[i], part.max[i]);
    const float total_factor = exp(total.max[i] - new_max);
    const float part_factor = exp(part.max[i] - new_max);
    total.max[i] = new_max;
    total.sum[i] = __builtin_fmaf(part_factor, part.sum[i], total.sum[i] * total_factor);
    add_scaled(to, total_factor, from, part_factor, head_dim);
  }
}

static void finish(const AttentionShape& shape, int64_t n_rows, int64_t kv_head, const AttentionState& state,
                   const float* sinks, float* out, int64_t out_stride) {
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  const int64_t head_dim = shape.v_head_dim;
  for (int64_t i = 0; i < n_rows * group; ++i) {
    const int64_t head = kv_head * group + i % group;
    float factor = 1.0f;
    float total = state.sum[i];
    if (sinks != nullptr) {
      const float new_max = larger(state.max[i], sinks[head]);
      factor = exp(state.max[i] - new_max);
      total = __builtin_fmaf(total, factor, exp(sinks[head] - new_max));
    }
    const Vec f = splat(factor);
    const Vec inverse = splat(1.0f / total);
    const float* from = state.values + i * head_dim;
    float* to = out + i / group * out_stride + head * head_dim;
    for (int64_t c = 0; c < head_dim; c += 16) {
      const int64_t count = head_dim - c < 16 ? head_dim - c : 16;
      store_n(to + c, mul(mul(load_n(from + c, count), f), inverse), count);
    }
  }
}

// Writes 16 elements, of which the first `n` are x's.
T9_VEC void store_finite(const float* x, int64_t n, uint16_t* out) {
  constexpr float kLargest = 65504.0f;
  store_f16(out, min(max(load_n(x, n), splat(-kLargest)), splat(kLargest)));
}
T9_VEC void store_finite(const float* x, int64_t n, float* out) {
  constexpr float kLargest = __FLT_MAX__;
  store(out, min(max(load_n(x, n), splat(-kLargest)), splat(kLargest)));
}

template <class Element>
static void write(const AttentionShape& shape, const float* k, const float* v, std::byte* k_page, std::byte* v_page,
                  int64_t slot_in_page) {
  alignas(64) Element elements[16];
  auto* k_out = reinterpret_cast<Element*>(k_page) + slot_in_page;
  for (int64_t i = 0; i < shape.n_kv_heads * shape.k_head_dim; i += 16) {
    const int64_t left = shape.n_kv_heads * shape.k_head_dim - i;
    const int64_t count = left < 16 ? left : 16;
    store_finite(k + i, count, elements);
    for (int64_t c = 0; c < count; ++c) k_out[(i + c) * kTile] = elements[c];
  }
  for (int64_t h = 0; h < shape.n_kv_heads; ++h) {
    auto* v_out = reinterpret_cast<Element*>(v_page) + (h * kTile + slot_in_page) * shape.v_head_dim;
    const float* head = v + h * shape.v_head_dim;
    for (int64_t i = 0; i < shape.v_head_dim; i += 16) {
      const int64_t count = shape.v_head_dim - i < 16 ? shape.v_head_dim - i : 16;
      store_finite(head + i, count, elements);
      for (int64_t c = 0; c < count; ++c) v_out[i + c] = elements[c];
    }
  }
}

template <class Element>
constexpr AttentionKernels attention_kernels() {
  return {.write = write<Element>, .attend_span = attend_span<Element>, .merge = merge, .finish = finish};
}

}  // namespace tempo9::kernels::T9_ISA
