// Each op against its formula, written out naively in double.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "backends/reference_fixture.h"
#include "quant/quant.h"

namespace tempo9::backends {
namespace {

using tensor::DType;

constexpr double kRelative = 1e-6;

void expect_close(const std::vector<float>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), expected[i], kRelative * std::max(1.0, std::fabs(expected[i]))) << i;
  }
}

Rows rows_of(int32_t n) {
  Rows rows;
  rows.append(0, 0, n);
  return rows;
}

std::vector<double> as_double(const std::vector<float>& values) { return {values.begin(), values.end()}; }

TEST(ReferenceOps, EmbedScalesADecodedRow) {
  const std::vector<float> table = random_floats(5 * 64, 1);
  const quant::QuantType& q8 = *quant::find_type(DType::kQ8_0);
  std::vector<std::byte> bytes(tensor::row_bytes(DType::kQ8_0, 64) * 5);
  q8.encode(table.data(), bytes.data(), 5 * 64);
  std::vector<float> decoded(5 * 64);
  q8.decode(bytes.data(), decoded.data(), 5 * 64);

  TestProgram p;
  const ValueId out =
      p.add(tensor::Embed{.table = p.weight(DType::kQ8_0, 64, 5, std::move(bytes)), .out = p.value(64), .scale = 8.0f});
  Rows rows = rows_of(3);
  rows.tokens = {4, 0, 4};
  std::vector<double> expected;
  for (int32_t token : rows.tokens) {
    for (size_t c = 0; c < 64; ++c)
      expected.push_back(8.0 * static_cast<double>(decoded[static_cast<size_t>(token) * 64 + c]));
  }
  expect_close(run_for(p, rows, out), expected);
}

TEST(ReferenceOps, RmsNormTakesEachGroupOnItsOwn) {
  const size_t cols = 24;
  const std::vector<float> x = random_floats(3 * cols, 2);
  for (size_t group : {cols, cols / 3, size_t{1}}) {
    for (bool weighted : {true, false}) {
      const std::vector<float> weight = random_floats(group, 3);
      TestProgram p;
      tensor::RmsNorm op{
          .x = input(p, x, cols), .out = p.value(cols), .eps = 1e-3f, .group = static_cast<int64_t>(group)};
      if (weighted) op.weight = p.weight(weight, static_cast<int64_t>(group));
      std::vector<double> expected(x.size());
      for (size_t begin = 0; begin < x.size(); begin += group) {
        double sum = 0.0;
        for (size_t i = 0; i < group; ++i) sum += std::pow(static_cast<double>(x[begin + i]), 2);
        for (size_t i = 0; i < group; ++i) {
          expected[begin + i] = static_cast<double>(x[begin + i]) /
                                std::sqrt(sum / static_cast<double>(group) + static_cast<double>(op.eps));
          if (weighted) expected[begin + i] *= static_cast<double>(weight[i]);
        }
      }
      expect_close(run_for(p, rows_of(3), p.add(op)), expected);
    }
  }
}

void expect_matmul(DType dtype, int64_t cols, bool biased) {
  const int64_t n_out = 7;
  const int32_t n_rows = 3;
  const quant::QuantType& type = *quant::find_type(dtype);
  const std::vector<float> x = random_floats(static_cast<size_t>(n_rows * cols), 4);
  const std::vector<float> bias = random_floats(n_out, 5);
  // Any bytes are a valid weight; these have small scales and finite floats.
  std::vector<std::byte> bytes(tensor::row_bytes(dtype, cols) * n_out, std::byte{0x2C});
  if (type.encode != nullptr)
    type.encode(random_floats(static_cast<size_t>(n_out * cols), 6).data(), bytes.data(), n_out * cols);
  std::vector<float> weight(static_cast<size_t>(n_out * cols));
  type.decode(bytes.data(), weight.data(), n_out * cols);

  TestProgram p;
  tensor::MatMul op{
      .x = input(p, x, cols), .weight = p.weight(dtype, cols, n_out, std::move(bytes)), .out = p.value(n_out)};
  if (biased) op.bias = p.weight(bias, n_out);
  const std::vector<float> got = run_for(p, rows_of(n_rows), p.add(op));
  ASSERT_EQ(got.size(), static_cast<size_t>(n_rows * n_out));
  for (int64_t i = 0; i < n_rows; ++i) {
    for (int64_t r = 0; r < n_out; ++r) {
      double sum = biased ? static_cast<double>(bias[static_cast<size_t>(r)]) : 0.0;
      double magnitude = std::fabs(sum);
      for (int64_t c = 0; c < cols; ++c) {
        const double term = static_cast<double>(weight[static_cast<size_t>(r * cols + c)]) *
                            static_cast<double>(x[static_cast<size_t>(i * cols + c)]);
        sum += term;
        magnitude += std::fabs(term);
      }
      // A lane adds at most 16 products in f32 before they go to double.
      EXPECT_NEAR(static_cast<double>(got[static_cast<size_t>(i * n_out + r)]), sum, 17 * 0x1p-24 * magnitude)
          << tensor::dtype_name(dtype) << ' ' << cols;
    }
  }
}

TEST(ReferenceOps, MatMulMultipliesDecodedWeightsOfEveryType) {
  for (const quant::QuantType& type : quant::all_types()) {
    expect_matmul(type.dtype, 512, false);
    expect_matmul(type.dtype, 512, true);
  }
}

TEST(ReferenceOps, MatMulTakesAnyNumberOfColumns) {
  for (int64_t cols : {1, 15, 16, 17, 255, 256, 257, 1000}) expect_matmul(DType::kF32, cols, false);
}

TEST(ReferenceOps, AddAndSoftCap) {
  const std::vector<float> a = random_floats(2 * 9, 7, 20.0f), b = random_floats(2 * 9, 8);
  TestProgram p;
  const ValueId sum = p.add(tensor::Add{.a = input(p, a, 9), .b = input(p, b, 9), .out = p.value(9)});
  const ValueId capped = p.add(tensor::SoftCap{.x = sum, .out = p.value(9), .cap = 30.0f});
  std::vector<double> expected_sum(a.size()), expected_capped(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    expected_sum[i] = static_cast<double>(a[i]) + static_cast<double>(b[i]);
    expected_capped[i] = 30.0 * std::tanh(expected_sum[i] / 30.0);
  }
  expect_close(run_for(p, rows_of(2), sum), expected_sum);
  expect_close(run_for(p, rows_of(2), capped), expected_capped);
}

TEST(ReferenceOps, GatedActivations) {
  std::vector<float> gate = random_floats(2 * 32, 9, 3.0f);
  gate[0] = 100.0f;
  gate[1] = -100.0f;
  gate[2] = 0.0f;
  const std::vector<float> up = random_floats(2 * 32, 10);
  for (tensor::Activation activation : {tensor::Activation::kSilu, tensor::Activation::kGeluTanh}) {
    TestProgram p;
    const ValueId out = p.add(tensor::GatedActivation{
        .gate = input(p, gate, 32), .up = input(p, up, 32), .out = p.value(32), .activation = activation});
    std::vector<double> expected(gate.size());
    for (size_t i = 0; i < gate.size(); ++i) {
      const double x = static_cast<double>(gate[i]);
      const double silu = x / (1.0 + std::exp(-x));
      const double gelu = 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
      expected[i] = (activation == tensor::Activation::kSilu ? silu : gelu) * static_cast<double>(up[i]);
    }
    expect_close(run_for(p, rows_of(2), out), expected);
  }
}

TEST(ReferenceOps, RopeRotatesEachPairByItsAngle) {
  const int64_t head_dim = 12, n_heads = 2, cols = head_dim * n_heads;
  const std::vector<float> x = random_floats(static_cast<size_t>(3 * cols), 12);
  for (tensor::RopePairs pairs : {tensor::RopePairs::kInterleaved, tensor::RopePairs::kHalves}) {
    for (int64_t n_rot : {head_dim, int64_t{8}}) {
      std::vector<float> frequencies;
      for (int64_t i = 0; i < n_rot / 2; ++i) frequencies.push_back(std::pow(10.0f, -static_cast<float>(i)));
      TestProgram p;
      p.program.rope_frequencies = {frequencies};
      const ValueId out = p.add(tensor::Rope{.x = input(p, x, cols),
                                             .out = p.value(cols),
                                             .frequencies = 0,
                                             .head_dim = head_dim,
                                             .n_rot = n_rot,
                                             .pairs = pairs,
                                             .magnitude = 1.25f});
      Rows rows = rows_of(3);
      rows.positions = {0, 7, 1000};
      std::vector<double> expected = as_double(x);
      for (size_t row = 0; row < 3; ++row) {
        for (int64_t head = 0; head < n_heads; ++head) {
          for (int64_t i = 0; i < n_rot / 2; ++i) {
            const size_t base = row * static_cast<size_t>(cols) + static_cast<size_t>(head * head_dim);
            const bool interleaved = pairs == tensor::RopePairs::kInterleaved;
            const size_t first = base + static_cast<size_t>(interleaved ? 2 * i : i);
            const size_t second = base + static_cast<size_t>(interleaved ? 2 * i + 1 : i + n_rot / 2);
            const float angle = static_cast<float>(rows.positions[row]) * frequencies[static_cast<size_t>(i)];
            const double cosine = 1.25 * std::cos(static_cast<double>(angle));
            const double sine = 1.25 * std::sin(static_cast<double>(angle));
            expected[first] = static_cast<double>(x[first]) * cosine - static_cast<double>(x[second]) * sine;
            expected[second] = static_cast<double>(x[first]) * sine + static_cast<double>(x[second]) * cosine;
          }
        }
      }
      expect_close(run_for(p, rows, out), expected);
    }
  }
}

TEST(ReferenceOps, SelectOutputsTakesTheWantedRows) {
  const std::vector<float> x = random_floats(5 * 4, 13);
  TestProgram p;
  const ValueId out = p.add(tensor::SelectOutputs{.x = input(p, x, 4), .out = p.value(4, tensor::RowSet::kOutputs)});
  Rows rows = rows_of(5);
  rows.outputs = {1, 4};
  std::vector<float> expected(x.begin() + 4, x.begin() + 8);
  expected.insert(expected.end(), x.begin() + 16, x.end());
  EXPECT_EQ(run_for(p, rows, out), expected);
}

// Attention over n tokens of one sequence: q, k and v are given row by row.
struct AttentionCase {
  int32_t n_tokens = 1;
  int64_t window = 0;
  float softcap = 0.0f;
  bool sinks = false;
  bool give_pages_back = false;
  tensor::IndexRange image = {};  // tokens that see each other in both directions

  int64_t end_of(int64_t token) const { return token >= image.begin && token < image.end ? image.end : token + 1; }
};

constexpr int64_t kHeads = 4, kKvHeads = 2, kKeyDim = 6, kValueDim = 5;

std::vector<double> naive_attention(const AttentionCase& c, float scale, const std::vector<float>& q,
                                    const std::vector<float>& k, const std::vector<float>& v,
                                    const std::vector<float>& sinks) {
  std::vector<double> out;
  for (int64_t i = 0; i < c.n_tokens; ++i) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const int64_t kv_head = head * kKvHeads / kHeads;
      double sum = c.sinks ? std::exp(static_cast<double>(sinks[static_cast<size_t>(head)])) : 0.0;
      std::vector<double> total(kValueDim);
      for (int64_t j = 0; j < c.end_of(i); ++j) {
        if (c.window > 0 && i - j >= c.window) continue;
        double score = 0.0;
        for (int64_t d = 0; d < kKeyDim; ++d) {
          score += static_cast<double>(q[static_cast<size_t>((i * kHeads + head) * kKeyDim + d)]) *
                   static_cast<double>(k[static_cast<size_t>((j * kKvHeads + kv_head) * kKeyDim + d)]);
        }
        score *= static_cast<double>(scale);
        if (c.softcap > 0.0f)
          score = static_cast<double>(c.softcap) * std::tanh(score / static_cast<double>(c.softcap));
        sum += std::exp(score);
        for (int64_t d = 0; d < kValueDim; ++d) {
          total[static_cast<size_t>(d)] +=
              std::exp(score) * static_cast<double>(v[static_cast<size_t>((j * kKvHeads + kv_head) * kValueDim + d)]);
        }
      }
      for (double value : total) out.push_back(value / sum);
    }
  }
  return out;
}

void expect_attention(const AttentionCase& c) {
  const size_t n = static_cast<size_t>(c.n_tokens);
  const std::vector<float> q = random_floats(n * kHeads * kKeyDim, 14);
  const std::vector<float> k = random_floats(n * kKvHeads * kKeyDim, 15);
  const std::vector<float> v = random_floats(n * kKvHeads * kValueDim, 16);
  const std::vector<float> sinks = random_floats(kHeads, 17);
  const float scale = 0.7f;
  TestProgram p;
  p.program.kv_layers = {{.n_kv_heads = kKvHeads, .k_head_dim = kKeyDim, .v_head_dim = kValueDim, .window = c.window}};
  const ValueId q_in = input(p, q, kHeads * kKeyDim);
  const ValueId k_in = input(p, k, kKvHeads * kKeyDim);
  const ValueId v_in = input(p, v, kKvHeads * kValueDim);
  p.program.ops.push_back(tensor::KvWrite{.k = k_in, .v = v_in, .kv_layer = 0});
  tensor::Attention op{.q = q_in,
                       .out = p.value(kHeads * kValueDim),
                       .kv_layer = 0,
                       .n_heads = kHeads,
                       .scale = scale,
                       .window = c.window,
                       .softcap = c.softcap};
  if (c.sinks) op.sinks = p.weight(sinks, kHeads);
  const ValueId out = p.add(op);

  FakeKv kv(p.program, 1, (c.n_tokens + 31) / 32);
  const std::vector<double> expected = naive_attention(c, scale, q, k, v, sinks);
  if (!c.give_pages_back) {
    Rows rows = rows_of(c.n_tokens);
    if (c.image.size() > 0) rows.add_image(static_cast<int32_t>(c.image.begin), static_cast<int32_t>(c.image.end));
    return expect_close(run_for(p, rows, out, kv.view()), expected);
  }
  // One token at a time; pages that no later token can see are given back.
  std::vector<float> got;
  for (int32_t slot = 0; slot < c.n_tokens; ++slot) {
    if (slot >= c.window && (slot - c.window + 1) % 32 == 0)
      kv.give_back(0, static_cast<size_t>((slot - c.window) / 32));
    Rows rows;
    rows.append(0, slot, slot + 1);
    const std::vector<float> row = run_for(p, rows, out, kv.view());
    got.insert(got.end(), row.begin(), row.end());
  }
  expect_close(got, expected);
}

TEST(ReferenceOps, AttentionReadsPagesAndSharesKvHeads) {
  for (int32_t n : {1, 2, 31, 32, 33, 63, 64, 65, 100}) expect_attention({.n_tokens = n});
}

TEST(ReferenceOps, AttentionWindowHasExactEdges) {
  for (int64_t window : {1, 2, 31, 32, 33, 64, 99, 100, 101}) expect_attention({.n_tokens = 100, .window = window});
}

TEST(ReferenceOps, AttentionShowsRowsOfAnImageAllOfIt) {
  for (const tensor::IndexRange image : {tensor::IndexRange{0, 40}, {31, 33}, {10, 60}, {64, 65}, {70, 99}}) {
    expect_attention({.n_tokens = 100, .image = image});
    expect_attention({.n_tokens = 100, .window = 50, .softcap = 1.5f, .sinks = true, .image = image});
  }
}

TEST(ReferenceOps, AttentionDoesNotTouchPagesBehindTheWindow) {
  for (int64_t window : {1, 31, 32, 33}) {
    expect_attention({.n_tokens = 130, .window = window, .give_pages_back = true});
  }
}

TEST(ReferenceOps, AttentionSoftCapAndSinks) {
  expect_attention({.n_tokens = 40, .softcap = 1.5f});
  expect_attention({.n_tokens = 40, .sinks = true});
  expect_attention({.n_tokens = 40, .window = 8, .softcap = 1.5f, .sinks = true});
}

}  // namespace
}  // namespace tempo9::backends
