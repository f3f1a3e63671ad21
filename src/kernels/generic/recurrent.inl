// Recurrent layers (kernels/recurrent.h) over the ISA's vec.h. Included by isa/<name>/recurrent.cpp after vec.h.

#pragma once

#include "kernels/generic/functions.inl"

namespace tempo9::kernels::T9_ISA {

// --- Convolution -----------------------------------------------------------------------------------------------------

static void causal_conv(tensor::MatView<const float> x, const float* taps, int64_t kernel, tensor::IndexRange cols,
                        float* state, tensor::MatView<float> out) {
  const int64_t n_past = kernel - 1;
  // Row i of the state continued by x.
  const auto source = [&](int64_t i) { return i < n_past ? state + i * x.cols : x.data + (i - n_past) * x.stride; };
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = cols.begin; c < cols.end; c += 16) {
      const int64_t n = cols.end - c < 16 ? cols.end - c : 16;
      Vec total = splat(0.0f);
      for (int64_t j = 0; j < kernel; ++j) {
        total = fma(load_n(source(r + j) + c, n), load_n(taps + j * x.cols + c, n), total);
      }
      store_n(out.data + r * out.stride + c, silu(total), n);
    }
  }
  // Ascending: a row is read before it is written over.
  for (int64_t i = 0; i < n_past; ++i) {
    const float* from = source(x.rows + i);
    for (int64_t c = cols.begin; c < cols.end; ++c) state[i * x.cols + c] = from[c];
  }
}

// --- Delta net -------------------------------------------------------------------------------------------------------
//
// Per token, with S the state before it (a row per key dimension, the slice's value columns as lanes):
//   m = S^T k, p = S^T q          two partial sums each, over even and odd rows, by fma in ascending order; then added
//   delta = beta * fma(-decay, m, v)
//   out = fma(decay, p, (q . k) * delta)
//   S = fma(k, delta, decay * S)
// which is the rule with the decay taken out of the sums: out = q^T (decay S + k delta^T). S is updated while the next
// token reads it, in one sweep.

// What a token has of its own, in a value head.
struct DeltaToken {
  const float* q;
  const float* k;
  float q_dot_k;
  float decay;
  float beta;
};

// out = x / sqrt(sum(x^2) + 1e-6) * factor
static void l2_normalize(const float* x, int64_t n, float factor, float* out) {
  Vec total = splat(0.0f);
  for (int64_t i = 0; i < n; i += 16) {
    const Vec v = load_n(x + i, n - i < 16 ? n - i : 16);
    total = fma(v, v, total);
  }
  const Vec scale = splat(factor / sqrt_of(sum(total) + 1e-6f));
  for (int64_t i = 0; i < n; i += 16) {
    const int64_t count = n - i < 16 ? n - i : 16;
    store_n(out + i, mul(load_n(x + i, count), scale), count);
  }
}

static float dot(const float* a, const float* b, int64_t n) {
  Vec total = splat(0.0f);
  for (int64_t i = 0; i < n; i += 16) {
    const int64_t count = n - i < 16 ? n - i : 16;
    total = fma(load_n(a + i, count), load_n(b + i, count), total);
  }
  return sum(total);
}

// Sums over the rows of S, of even and odd ones.
struct DeltaSums {
  Vec m[2];
  Vec p[2];
};

// One sweep over S: what `kUpdate` adds for the token before, and what `kRead` sums for the token.
// kWhole: n_cols is kDeltaSlice.
template <bool kUpdate, bool kRead, bool kWhole>
static DeltaSums sweep(float* state, int64_t k_dim, int64_t n_cols, const DeltaToken& before, Vec delta,
                       const DeltaToken& token) {
  const Vec zero = splat(0.0f);
  DeltaSums sums = {{zero, zero}, {zero, zero}};
  const Vec decay = splat(before.decay);
  const auto row = [&](int64_t i, Vec & m, Vec & p) __attribute__((always_inline)) {
    float* at = state + i * (kWhole ? kDeltaSlice : n_cols);
    Vec s = kWhole ? load(at) : load_n(at, n_cols);
    if constexpr (kUpdate) {
      s = fma(splat(before.k[i]), delta, mul(decay, s));
      if constexpr (kWhole) {
        store(at, s);
      } else {
        store_n(at, s, n_cols);
      }
    }
    if constexpr (kRead) {
      m = fma(splat(token.k[i]), s, m);
      p = fma(splat(token.q[i]), s, p);
    }
  };
  int64_t i = 0;
  for (; i + 2 <= k_dim; i += 2) {
    row(i, sums.m[0], sums.p[0]);
    row(i + 1, sums.m[1], sums.p[1]);
  }
  if (i < k_dim) row(i, sums.m[0], sums.p[0]);
  return sums;
}

// Takes `n_tokens` tokens through a slice of n_cols value columns. v and out: v_dim per token.
template <bool kWhole>
static void delta_slice(const DeltaToken* tokens, int64_t n_tokens, const float* v, int64_t v_dim, float* state,
                        int64_t k_dim, int64_t n_cols, float* out) {
  Vec delta = splat(0.0f);
  for (int64_t t = 0; t < n_tokens; ++t) {
    const DeltaToken& token = tokens[t];
    const DeltaSums sums = t == 0 ? sweep<false, true, kWhole>(state, k_dim, n_cols, token, delta, token)
                                  : sweep<true, true, kWhole>(state, k_dim, n_cols, tokens[t - 1], delta, token);
    const Vec m = add(sums.m[0], sums.m[1]);
    const Vec p = add(sums.p[0], sums.p[1]);
    const Vec value = load_n(v + t * v_dim, n_cols);
    delta = mul(splat(token.beta), fma(splat(-token.decay), m, value));
    store_n(out + t * v_dim, fma(splat(token.decay), p, mul(splat(token.q_dot_k), delta)), n_cols);
  }
  const DeltaToken& last = tokens[n_tokens - 1];
  sweep<true, false, kWhole>(state, k_dim, n_cols, last, delta, last);
}

// The tokens [first, first + n) of a head, n <= kDeltaTokens.
static void prepare_tokens(const DeltaNetShape& shape, const DeltaNetRows& rows, int64_t head, float a, float dt,
                           int64_t first, int64_t n, float* scratch, DeltaToken* tokens) {
  const int64_t key_cols = shape.n_k_heads * shape.k_dim;
  const int64_t key_begin = head % shape.n_k_heads * shape.k_dim;
  const float q_factor = 1.0f / sqrt_of(static_cast<float>(shape.k_dim));
  float decays[kDeltaTokens] = {};
  float betas[kDeltaTokens] = {};
  for (int64_t t = 0; t < n; ++t) {
    decays[t] = rows.alpha.data[(first + t) * rows.alpha.stride + head];
    betas[t] = rows.beta.data[(first + t) * rows.beta.stride + head];
  }
  static_assert(kDeltaTokens == 16);
  store(decays, exp(mul(splat(a), softplus(add(load(decays), splat(dt))))));
  store(betas, sigmoid(load(betas)));
  for (int64_t t = 0; t < n; ++t) {
    float* q = scratch + 2 * t * shape.k_dim;
    float* k = q + shape.k_dim;
    const float* row = rows.qkv.data + (first + t) * rows.qkv.stride;
    l2_normalize(row + key_begin, shape.k_dim, q_factor, q);
    l2_normalize(row + key_cols + key_begin, shape.k_dim, 1.0f, k);
    tokens[t] = {.q = q, .k = k, .q_dot_k = dot(q, k, shape.k_dim), .decay = decays[t], .beta = betas[t]};
  }
}

static void copy_rows(const float* from, int64_t from_stride, int64_t n_rows, int64_t n_cols, float* to,
                      int64_t to_stride) {
  for (int64_t r = 0; r < n_rows; ++r) {
    for (int64_t c = 0; c < n_cols; ++c) to[r * to_stride + c] = from[r * from_stride + c];
  }
}

// Values and results go by way of the scratch memory: a slice reads one cache line per row, far from each other and on
// the same few sets of the cache.
static void delta_net(const DeltaNetShape& shape, const DeltaNetRows& rows, int64_t head, float a, float dt,
                      float* state, float* scratch) {
  const float* values = rows.qkv.data + 2 * shape.n_k_heads * shape.k_dim + head * shape.v_dim;
  float* results = rows.out.data + head * shape.v_dim;
  float* v = scratch + 2 * kDeltaTokens * shape.k_dim;
  float* out = v + kDeltaTokens * shape.v_dim;
  DeltaToken tokens[kDeltaTokens];
  for (int64_t first = 0; first < rows.qkv.rows; first += kDeltaTokens) {
    const int64_t n = rows.qkv.rows - first < kDeltaTokens ? rows.qkv.rows - first : kDeltaTokens;
    prepare_tokens(shape, rows, head, a, dt, first, n, scratch, tokens);
    copy_rows(values + first * rows.qkv.stride, rows.qkv.stride, n, shape.v_dim, v, shape.v_dim);
    for (int64_t c = 0; c < shape.v_dim; c += kDeltaSlice) {
      const int64_t n_cols = shape.v_dim - c < kDeltaSlice ? shape.v_dim - c : kDeltaSlice;
      const auto run = n_cols == kDeltaSlice ? delta_slice<true> : delta_slice<false>;
      run(tokens, n, v + c, shape.v_dim, state + c * shape.k_dim, shape.k_dim, n_cols, out + c);
    }
    copy_rows(out, shape.v_dim, n, shape.v_dim, results + first * rows.out.stride, rows.out.stride);
  }
}

}  // namespace tempo9::kernels::T9_ISA
