#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/isas.h"

namespace tempo9::kernels {
namespace {

constexpr int64_t kSizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 64, 100, 576, 1000};
constexpr double kUlp = std::numeric_limits<float>::epsilon();  // of a value in [1, 2)

// Runs `kernel` on every ISA, expects equal bits, returns the values.
std::vector<float> on_every_isa(size_t n_out, const std::function<void(const RowKernels&, float* out)>& kernel) {
  std::vector<float> first;
  for (const Isa* isa : isas_here()) {
    std::vector<float> out(n_out + 1, 77.0f);
    kernel(*isa->rows, out.data());
    EXPECT_EQ(out.back(), 77.0f) << isa->name << " wrote past the end";
    out.pop_back();
    if (first.empty()) first = out;
    EXPECT_EQ(bits_of(out), bits_of(first)) << isa->name;
  }
  return first;
}

// |actual - expected| <= tolerance * |expected| + what two roundings among denormals lose, times a factor of up to 4.
void expect_close(float actual, double expected, double tolerance, float x) {
  const double bound = tolerance * std::fabs(expected) + 4.0 * std::numeric_limits<float>::denorm_min();
  if (std::isinf(actual) && std::fabs(expected) >= std::numeric_limits<float>::max()) return;
  EXPECT_LE(std::fabs(actual - expected), bound) << "at " << x << ": " << actual << " for " << expected;
}

TEST(RmsNorm, FollowsTheFormula) {
  std::mt19937 rng(1);
  for (int64_t group : kSizes) {
    for (int64_t n_groups : {1, 3}) {
      const int64_t cols = group * n_groups;
      const std::vector<float> x = random_floats(rng, static_cast<size_t>(cols), 2.0f);
      const std::vector<float> weight = random_floats(rng, static_cast<size_t>(group));
      const std::vector<float> out = on_every_isa(x.size(), [&](const RowKernels& rows, float* to) {
        rows.rms_norm(x.data(), weight.data(), to, cols, group, 1e-5f);
      });
      for (int64_t i = 0; i < cols; ++i) {
        double squares = 0.0;
        for (int64_t j = 0; j < group; ++j) squares += std::pow(x[i / group * group + j], 2);
        const double expected = x[i] / std::sqrt(squares / group + 1e-5f) * weight[i % group];
        // A lane adds group / 16 squares; half of that error reaches the square root. Five roundings follow.
        expect_close(out[i], expected, kUlp * (group / 32.0 + 6), x[i]);
      }
    }
  }
}

TEST(RmsNorm, TakesNoWeightAndZeros) {
  const std::vector<float> zeros(33, 0.0f);
  const std::vector<float> out = on_every_isa(
      33, [&](const RowKernels& rows, float* to) { rows.rms_norm(zeros.data(), nullptr, to, 33, 33, 1e-6f); });
  EXPECT_EQ(bits_of(out), bits_of(zeros));
}

TEST(Add, IsExact) {
  std::mt19937 rng(2);
  for (int64_t n : kSizes) {
    const std::vector<float> a = awkward_floats(rng, static_cast<size_t>(n));
    const std::vector<float> b = awkward_floats(rng, static_cast<size_t>(n));
    const std::vector<float> out =
        on_every_isa(a.size(), [&](const RowKernels& rows, float* to) { rows.add(a.data(), b.data(), to, n); });
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], a[i] + b[i]);
  }
}

TEST(Scale, IsExact) {
  std::mt19937 rng(9);
  for (int64_t n : kSizes) {
    const std::vector<float> x = awkward_floats(rng, static_cast<size_t>(n));
    const std::vector<float> out =
        on_every_isa(x.size(), [&](const RowKernels& rows, float* to) { rows.scale(x.data(), 0.3f, to, n); });
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], x[i] * 0.3f);
  }
}

TEST(GateRow, FollowsTheSigmoid) {
  for (float gate = -90.0f; gate < 90.0f; gate += 1.37f) {
    const float x = 3.0f;
    const std::vector<float> out =
        on_every_isa(1, [&](const RowKernels& rows, float* to) { rows.gate_row(gate, &x, to, 1); });
    if (gate < -87.0f) {
      EXPECT_LE(out[0], 1e-37f);  // e^-gate is at its end
    } else {
      expect_close(out[0], 3.0 / (1.0 + std::exp(-static_cast<double>(gate))), 4 * kUlp, gate);
    }
  }
}

TEST(PositionScale, FollowsTheLogarithm) {
  const float x = 1.0f;
  for (int64_t period : {1, 7, 8192}) {
    for (int64_t position = 0; position < (int64_t{1} << 31); position += position / 5 + 1) {
      const std::vector<float> out = on_every_isa(1, [&](const RowKernels& rows, float* to) {
        rows.position_scale(&x, static_cast<int32_t>(position), 0.1f, period, to, 1);
      });
      const double n = static_cast<double>(1.0f + static_cast<float>(position / period));
      expect_close(out[0], 1.0 + static_cast<double>(0.1f) * std::log(n), kUlp, static_cast<float>(position));
    }
  }
}

// Experts, then their weights.
std::vector<float> chosen(const std::vector<float>& logits, int64_t n_used) {
  return on_every_isa(static_cast<size_t>(2 * n_used), [&](const RowKernels& rows, float* to) {
    std::vector<int32_t> experts(static_cast<size_t>(n_used));
    rows.choose_experts(logits.data(), std::ssize(logits), n_used, experts.data(), to + n_used);
    std::copy(experts.begin(), experts.end(), to);
  });
}

TEST(ChooseExperts, SortsByLogitThenIndexAndWeighsBySoftmax) {
  std::mt19937 rng(10);
  for (int64_t n : {1, 5, 64, 257}) {
    for (int64_t n_used : {int64_t{1}, std::min<int64_t>(n, 4), std::min<int64_t>(n, 17), n}) {
      std::vector<float> logits = random_floats(rng, static_cast<size_t>(n), 2.0f);
      for (float& logit : logits) logit = std::round(4.0f * logit) / 4.0f;  // so that many are equal
      std::vector<int> order(logits.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](int a, int b) { return logits[a] > logits[b]; });
      double sum = 0.0;
      for (int64_t i = 0; i < n_used; ++i) sum += std::exp(static_cast<double>(logits[order[i]]));
      const std::vector<float> out = chosen(logits, n_used);
      for (int64_t i = 0; i < n_used; ++i) {
        EXPECT_EQ(out[i], order[i]);
        expect_close(out[n_used + i], std::exp(static_cast<double>(logits[order[i]])) / sum, kUlp * (4 + n_used / 16),
                     logits[order[i]]);
      }
    }
  }
}

TEST(ChooseExperts, GivesEachExpertOnceWhateverTheLogits) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits : {std::vector<float>{nan, nan, nan, nan},
                                           {nan, 1.0f, inf, 0.0f},
                                           {1.0f, nan, 2.0f, -inf},
                                           {inf, inf, inf, inf}}) {
    for (int64_t n_used = 1; n_used <= 4; ++n_used) {
      std::vector<int32_t> experts(4, -1);
      std::vector<float> weights(4);
      best_isa().rows->choose_experts(logits.data(), 4, n_used, experts.data(), weights.data());
      experts.resize(static_cast<size_t>(n_used));
      std::ranges::sort(experts);
      EXPECT_EQ(std::ranges::adjacent_find(experts), experts.end());
      EXPECT_GE(experts.front(), 0);
      EXPECT_LT(experts.back(), 4);
    }
  }
}

TEST(WeightedSum, AddsThePickedRowsInOrder) {
  std::mt19937 rng(11);
  constexpr int32_t kPicked[] = {2, 0, 4, 2};
  for (int64_t n : kSizes) {
    const std::vector<float> rows = random_floats(rng, static_cast<size_t>(5 * n));
    const std::vector<float> weights = random_floats(rng, 4);
    const std::vector<float> out = on_every_isa(static_cast<size_t>(n), [&](const RowKernels& kernels, float* to) {
      kernels.weighted_sum(weights.data(), kPicked, 4, {rows.data(), 5, n, n}, to);
    });
    for (int64_t c = 0; c < n; ++c) {
      float expected = 0.0f;
      for (int i = 0; i < 4; ++i) expected = std::fma(weights[i], rows[kPicked[i] * n + c], expected);
      EXPECT_EQ(out[c], expected);
    }
  }
}

TEST(Gated, SiluFollowsTheFormula) {
  std::mt19937 rng(3);
  for (int64_t n : kSizes) {
    const std::vector<float> gate = awkward_floats(rng, static_cast<size_t>(n));
    const std::vector<float> up = random_floats(rng, static_cast<size_t>(n));
    const std::vector<float> out = on_every_isa(gate.size(), [&](const RowKernels& rows, float* to) {
      rows.gated(tensor::Activation::kSilu, gate.data(), up.data(), to, n);
    });
    for (int64_t i = 0; i < n; ++i) {
      const double g = gate[i];
      if (g < -87.0) {
        EXPECT_LE(std::fabs(out[i]), 1e-34 * std::fabs(up[i]));  // e^-x is at its end; the true value is below
      } else {
        expect_close(out[i], g / (1.0 + std::exp(-g)) * up[i], 4 * kUlp, gate[i]);
      }
    }
  }
}

TEST(Gated, GeluFollowsTheFormula) {
  std::mt19937 rng(4);
  const int64_t n = 2000;
  const std::vector<float> gate = random_floats(rng, n, 3.0f);
  const std::vector<float> up = random_floats(rng, n);
  const std::vector<float> out = on_every_isa(gate.size(), [&](const RowKernels& rows, float* to) {
    rows.gated(tensor::Activation::kGeluTanh, gate.data(), up.data(), to, n);
  });
  for (int64_t i = 0; i < n; ++i) {
    const double x = gate[i];
    const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
    if (u < -40.0) continue;
    // The exponent 2u carries 4 roundings, each of which e^-2u multiplies by 2|u|.
    expect_close(out[i], x / (1.0 + std::exp(-2.0 * u)) * up[i], kUlp * (4 + 4 * std::fabs(u)), gate[i]);
  }
}

TEST(Gated, SigmoidAndClampedSwigluFollowTheirFormulas) {
  std::mt19937 rng(8);
  const int64_t n = 1003;
  const std::vector<float> gate = random_floats(rng, n, 6.0f);
  const std::vector<float> up = random_floats(rng, n, 6.0f);
  const auto run = [&](tensor::Activation activation) {
    return on_every_isa(
        gate.size(), [&](const RowKernels& rows, float* to) { rows.gated(activation, gate.data(), up.data(), to, n); });
  };
  const std::vector<float> sigmoid = run(tensor::Activation::kSigmoid);
  const std::vector<float> clamped = run(tensor::Activation::kClampedSwiglu);
  for (int64_t i = 0; i < n; ++i) {
    expect_close(sigmoid[i], up[i] / (1.0 + std::exp(-static_cast<double>(gate[i]))), 4 * kUlp, gate[i]);
    const double g = std::min(gate[i], 7.0f);
    const double u = std::clamp(up[i], -7.0f, 7.0f);
    // u + 1 is rounded in relation to itself; the exponent's one rounding counts 1.702 |g| times.
    expect_close(clamped[i], g / (1.0 + std::exp(-1.702 * g)) * (u + 1.0), kUlp * (5 + 2 * std::fabs(g)), gate[i]);
  }
}

TEST(Gated, AgreesOnAwkwardValues) {
  std::mt19937 rng(5);
  const std::vector<float> gate = awkward_floats(rng, 4096);
  const std::vector<float> up = awkward_floats(rng, 4096);
  for (tensor::Activation activation : {tensor::Activation::kSilu, tensor::Activation::kGeluTanh,
                                        tensor::Activation::kSigmoid, tensor::Activation::kClampedSwiglu}) {
    const std::vector<float> out = on_every_isa(gate.size(), [&](const RowKernels& rows, float* to) {
      rows.gated(activation, gate.data(), up.data(), to, 4096);
    });
    for (size_t i = 0; i < out.size(); ++i) EXPECT_FALSE(std::isnan(out[i])) << gate[i] << " " << up[i];
  }
}

TEST(SoftCap, FollowsTanh) {
  std::vector<float> x;
  for (float v = -40.0f; v <= 40.0f; v += 0.0371f) x.push_back(v);
  for (float v = 1e-20f; v < 100.0f; v *= 1.37f) x.push_back(v);
  x.push_back(0.0f);
  x.push_back(1e30f);
  const auto n = static_cast<int64_t>(x.size());
  const std::vector<float> out =
      on_every_isa(x.size(), [&](const RowKernels& rows, float* to) { rows.soft_cap(x.data(), to, 2.0f, n); });
  // 2 ulp of tanh, in units of kUlp up to twice that, and the product.
  for (size_t i = 0; i < x.size(); ++i) expect_close(out[i], 2.0 * std::tanh(x[i] / 2.0), 3 * kUlp, x[i]);
}

TEST(RopeAngles, AreRightUpToMillionsOfPositions) {
  std::vector<float> frequencies;
  for (int i = 0; i < 33; ++i) frequencies.push_back(std::pow(10000.0f, -i / 33.0f));
  const auto n = static_cast<int64_t>(frequencies.size());
  for (int32_t position : {0, 1, 2, 31, 511, 4095, 32767, 131071, 999983, 2000003}) {
    const std::vector<float> out = on_every_isa(2 * frequencies.size(), [&](const RowKernels& rows, float* to) {
      rows.rope_angles(position, frequencies.data(), n, 1.0f, to, to + n);
    });
    for (int64_t i = 0; i < n; ++i) {
      const float angle = static_cast<float>(position) * frequencies[i];
      // Half an ulp of the rounding; near a zero, the reduced angle's own error of 2^-53 * n.
      EXPECT_NEAR(out[i], std::cos(static_cast<double>(angle)), 0.6 * kUlp) << angle;
      EXPECT_NEAR(out[n + i], std::sin(static_cast<double>(angle)), 0.6 * kUlp) << angle;
    }
    if (position == 0) {
      EXPECT_EQ(out[0], 1.0f);
      EXPECT_EQ(out[n], 0.0f);
    }
  }
}

TEST(Rope, RotatesPairsOfBothKinds) {
  std::mt19937 rng(6);
  for (int64_t head_dim : {2, 16, 64, 70, 80}) {
    for (int64_t n_rot : {head_dim, head_dim / 2 / 2 * 2}) {
      if (n_rot == 0) continue;
      const int64_t n_heads = 3;
      const std::vector<float> x = random_floats(rng, static_cast<size_t>(n_heads * head_dim));
      const std::vector<float> angles = random_floats(rng, static_cast<size_t>(n_rot));
      const float* c = angles.data();
      const float* s = c + n_rot / 2;
      for (tensor::RopePairs pairs : {tensor::RopePairs::kHalves, tensor::RopePairs::kInterleaved}) {
        const std::vector<float> out = on_every_isa(x.size(), [&](const RowKernels& rows, float* to) {
          rows.rope(x.data(), to, n_heads, head_dim, n_rot, pairs, c, s);
        });
        const std::vector<float> in_place = on_every_isa(x.size(), [&](const RowKernels& rows, float* to) {
          std::copy(x.begin(), x.end(), to);
          rows.rope(to, to, n_heads, head_dim, n_rot, pairs, c, s);
        });
        EXPECT_EQ(bits_of(out), bits_of(in_place));
        for (int64_t h = 0; h < n_heads; ++h) {
          const float* head = x.data() + h * head_dim;
          const float* result = out.data() + h * head_dim;
          for (int64_t i = 0; i < n_rot / 2; ++i) {
            const int64_t a = pairs == tensor::RopePairs::kHalves ? i : 2 * i;
            const int64_t b = pairs == tensor::RopePairs::kHalves ? i + n_rot / 2 : 2 * i + 1;
            EXPECT_EQ(result[a], head[a] * c[i] - head[b] * s[i]);
            EXPECT_EQ(result[b], head[a] * s[i] + head[b] * c[i]);
          }
          for (int64_t i = n_rot; i < head_dim; ++i) EXPECT_EQ(result[i], head[i]);
        }
      }
    }
  }
}

TEST(Isas, AreListedFromSlowestToFastest) {
  ASSERT_FALSE(all_isas().empty());
  EXPECT_EQ(all_isas().front().name, "scalar");
  EXPECT_TRUE(all_isas().front().runs_here());
  EXPECT_EQ(&best_isa(), isas_here().back());
  EXPECT_EQ(find_isa("scalar"), &all_isas().front());
  EXPECT_EQ(find_isa("mmx"), nullptr);
}

}  // namespace
}  // namespace tempo9::kernels
