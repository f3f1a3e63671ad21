// Row kernels (RowKernels in kernels.h) over the ISA's vec.h. Included by isa/<name>/rows.cpp.

#pragma once

#include "kernels/generic/functions.inl"

namespace tempo9::kernels::T9_ISA {

// Calls body(i, n) for each run of 16 elements; n < 16 only in the last.
template <class Body>
T9_VEC void for_vectors(int64_t size, const Body& body) {
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) body(i, int64_t{16});
  if (i < size) body(i, size - i);
}

T9_VEC Vec load_some(const float* p, int64_t n) { return n == 16 ? load(p) : load_n(p, n); }
T9_VEC void store_some(float* p, Vec a, int64_t n) {
  if (n == 16) {
    store(p, a);
  } else {
    store_n(p, a, n);
  }
}

// Numeric contract C2: lane j sums the squares of elements j, j + 16, ... by fma, then the tree.
static float sum_of_squares(const float* x, int64_t n) {
  Vec total = splat(0.0f);
  for_vectors(n, [&](int64_t i, int64_t count) {
    const Vec v = load_some(x + i, count);
    total = fma(v, v, total);
  });
  return sum(total);
}

static void rms_norm(const float* x, const float* weight, float* out, int64_t cols, int64_t group, float eps) {
  for (int64_t begin = 0; begin < cols; begin += group) {
    const float mean = sum_of_squares(x + begin, group) / static_cast<float>(group);
    const Vec scale = splat(1.0f / sqrt_of(mean + eps));
    for_vectors(group, [&](int64_t i, int64_t count) {
      Vec v = mul(load_some(x + begin + i, count), scale);
      if (weight != nullptr) v = mul(v, load_some(weight + i, count));
      store_some(out + begin + i, v, count);
    });
  }
}

static void add(const float* a, const float* b, float* out, int64_t n) {
  for_vectors(n, [&](int64_t i, int64_t count) {
    store_some(out + i, add(load_some(a + i, count), load_some(b + i, count)), count);
  });
}

static void scale(const float* x, float factor, float* out, int64_t n) {
  const Vec f = splat(factor);
  for_vectors(n, [&](int64_t i, int64_t count) { store_some(out + i, mul(load_some(x + i, count), f), count); });
}

static void gate_row(float gate, const float* x, float* out, int64_t n) {
  scale(x, first(sigmoid(splat(gate))), out, n);
}

static void position_scale(const float* x, int32_t position, float beta, int64_t period, float* out, int64_t n) {
  const float n_periods = static_cast<float>(position / period);
  scale(x, __builtin_fmaf(beta, first(log(splat(1.0f + n_periods))), 1.0f), out, n);
}

template <class Function>
T9_VEC void gate_by(const Function& function, const float* gate, const float* up, float* out, int64_t n) {
  for_vectors(n, [&](int64_t i, int64_t count) {
    store_some(out + i, function(load_some(gate + i, count), load_some(up + i, count)), count);
  });
}

static void gated(tensor::Activation activation, const float* gate, const float* up, float* out, int64_t n) {
  switch (activation) {
    case tensor::Activation::kSilu:
      gate_by([](Vec g, Vec u) { return mul(silu(g), u); }, gate, up, out, n);
      break;
    case tensor::Activation::kGeluTanh:
      gate_by([](Vec g, Vec u) { return mul(gelu_tanh(g), u); }, gate, up, out, n);
      break;
    case tensor::Activation::kSigmoid:
      gate_by([](Vec g, Vec u) { return mul(sigmoid(g), u); }, gate, up, out, n);
      break;
    case tensor::Activation::kClampedSwiglu:
      gate_by([](Vec g, Vec u) { return clamped_swiglu(g, u); }, gate, up, out, n);
      break;
  }
}

static void soft_cap(const float* x, float* out, float cap, int64_t n) {
  const Vec c = splat(cap);
  for_vectors(
      n, [&](int64_t i, int64_t count) { store_some(out + i, mul(c, tanh(div(load_some(x + i, count), c))), count); });
}

static void choose_experts(const float* logits, int64_t n, int64_t n_used, int32_t* experts, float* weights) {
  // Insertion into a sorted list; `weights` holds the logits meanwhile. Most logits are below the last of the list.
  int64_t count = 0;
  for (int64_t e = 0; e < n; ++e) {
    if (count == n_used && !(logits[e] > weights[n_used - 1])) continue;
    int64_t at = count < n_used ? count++ : n_used - 1;
    for (; at > 0 && logits[e] > weights[at - 1]; --at) {
      experts[at] = experts[at - 1];
      weights[at] = weights[at - 1];
    }
    experts[at] = static_cast<int32_t>(e);
    weights[at] = logits[e];
  }
  const Vec top = splat(weights[0]);
  Vec total = splat(0.0f);
  for_vectors(n_used, [&](int64_t i, int64_t length) {
    store_some(weights + i, exp(sub(load_some(weights + i, length), top)), length);
    total = add(total, load_some(weights + i, length));
  });
  const Vec all = splat(sum(total));
  for_vectors(n_used, [&](int64_t i, int64_t length) {
    store_some(weights + i, div(load_some(weights + i, length), all), length);
  });
}

static void weighted_sum(const float* weights, const int32_t* picked, int64_t n_picked, MatView<const float> rows,
                         float* out) {
  for_vectors(rows.cols, [&](int64_t c, int64_t count) {
    Vec total = splat(0.0f);
    for (int64_t i = 0; i < n_picked; ++i) {
      total = fma(splat(weights[i]), load_some(rows.data + picked[i] * rows.stride + c, count), total);
    }
    store_some(out + c, total, count);
  });
}

// The angle is rounded to f32, as it was when the models were trained; its cosine and sine are not: an angle of 10^6
// rad has no digits left in a float once reduced, so that is done in double. The first reduction step is exact, and
// pi/2 is held in two doubles. The polynomials are minimax fits of (sin r - r) / r^3 and (cos r - 1 + r^2/2) / r^4 for
// |r| <= pi/4, in r^2; their error is below 1e-4 ulp of a float.
static void rope_angles(int32_t position, const float* frequencies, int64_t n_pairs, float magnitude, float* cosines,
                        float* sines) {
  const double shifter = 0x1.8p52;  // leaves the nearest integer in the low bits
  for (int64_t i = 0; i < n_pairs; ++i) {
    const double angle = static_cast<float>(position) * frequencies[i];
    const double shifted = __builtin_fma(angle, 0x1.45f306dc9c883p-1, shifter);
    const double n = shifted - shifter;
    double r = __builtin_fma(n, -0x1.921fb54442d18p0, angle);
    r = __builtin_fma(n, -0x1.1a62633145c07p-54, r);
    const double z = r * r;
    double p = __builtin_fma(z, 2.7182373115063525e-06, -0.00019839327141177158);
    p = __builtin_fma(z, p, 0.008333329362299519);
    p = __builtin_fma(z, p, -0.16666666641426756);
    const double sine = __builtin_fma(z * r, p, r);
    double q = __builtin_fma(z, -2.720954959168516e-07, 2.4799511788985714e-05);
    q = __builtin_fma(z, q, -0.0013888883722733866);
    q = __builtin_fma(z, q, 0.041666666622478574);
    const double cosine = __builtin_fma(z * z, q, __builtin_fma(z, -0.5, 1.0));
    const uint64_t quadrant = std::bit_cast<uint64_t>(shifted);
    const bool swap = (quadrant & 1) != 0;
    const double c = swap ? sine : cosine;
    const double s = swap ? cosine : sine;
    cosines[i] = static_cast<float>(((quadrant + 1) & 2) != 0 ? -c : c) * magnitude;
    sines[i] = static_cast<float>((quadrant & 2) != 0 ? -s : s) * magnitude;
  }
}

static void rope_halves(const float* x, float* out, int64_t n_pairs, const float* cosines, const float* sines) {
  for_vectors(n_pairs, [&](int64_t i, int64_t count) {
    const Vec a = load_some(x + i, count);
    const Vec b = load_some(x + n_pairs + i, count);
    const Vec c = load_some(cosines + i, count);
    const Vec s = load_some(sines + i, count);
    store_some(out + i, sub(mul(a, c), mul(b, s)), count);
    store_some(out + n_pairs + i, add(mul(a, s), mul(b, c)), count);
  });
}

static void rope_interleaved(const float* x, float* out, int64_t n_pairs, const float* cosines, const float* sines) {
  for (int64_t i = 0; i < n_pairs; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    out[2 * i] = a * cosines[i] - b * sines[i];
    out[2 * i + 1] = a * sines[i] + b * cosines[i];
  }
}

static void rope(const float* x, float* out, int64_t n_heads, int64_t head_dim, int64_t n_rot, tensor::RopePairs pairs,
                 const float* cosines, const float* sines) {
  for (int64_t h = 0; h < n_heads; ++h) {
    const float* from = x + h * head_dim;
    float* to = out + h * head_dim;
    if (pairs == tensor::RopePairs::kHalves) {
      rope_halves(from, to, n_rot / 2, cosines, sines);
    } else {
      rope_interleaved(from, to, n_rot / 2, cosines, sines);
    }
    if (from == to) continue;
    for (int64_t i = n_rot; i < head_dim; ++i) to[i] = from[i];
  }
}

}  // namespace tempo9::kernels::T9_ISA
