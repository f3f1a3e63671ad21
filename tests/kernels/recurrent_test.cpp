// Recurrent kernels against reference/, with bits that do not depend on the instruction set or on how the rows are cut.
#include "kernels/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/isas.h"
#include "kernels/reference/reference.h"

namespace tempo9::kernels {
namespace {

// Sequences of rows: the whole, and cuts of it.
std::vector<std::vector<int64_t>> cuts_of(int64_t n_rows) {
  std::vector<std::vector<int64_t>> cuts = {{n_rows}, std::vector<int64_t>(static_cast<size_t>(n_rows), 1)};
  if (n_rows > 7) cuts.push_back({3, 1, n_rows - 4});
  if (n_rows > 20) cuts.push_back({16, n_rows - 16});
  return cuts;
}

// A batch of one sequence whose state is `state`.
struct OneSequence {
  std::vector<int32_t> numbers;
  float* states[1];
  tensor::Batch batch;

  OneSequence(int64_t n_rows, float* state) : numbers(static_cast<size_t>(n_rows), 0), states{state} {
    batch.tokens = batch.sequences = batch.slots = numbers;
    batch.states = {states, 1};
  }
};

MatView<float> rows_at(std::vector<float>& values, int64_t first, int64_t n, int64_t cols) {
  return {values.data() + first * cols, n, cols, cols};
}

// |got - expected| <= tolerance * the largest magnitude
void expect_close(const std::vector<float>& got, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 0.0;
  for (const float value : expected) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance * largest) << i;
}

TEST(CausalConv, FollowsTheReferenceOverAnyCut) {
  std::mt19937 rng(1);
  for (int64_t kernel : {2, 4, 7}) {
    for (int64_t cols : {1, 16, 50}) {
      for (int64_t n_rows : {1, 2, 5, 33}) {
        std::vector<float> x = random_floats(rng, static_cast<size_t>(n_rows * cols));
        const std::vector<float> weight = random_floats(rng, static_cast<size_t>(kernel * cols));
        const std::vector<float> past = random_floats(rng, static_cast<size_t>((kernel - 1) * cols));
        std::vector<float> taps(weight.size());
        for (int64_t c = 0; c < cols; ++c) {
          for (int64_t j = 0; j < kernel; ++j) taps[j * cols + c] = weight[c * kernel + j];
        }
        std::vector<float> expected(x.size()), expected_state = past;
        const OneSequence sequence(n_rows, expected_state.data());
        reference::causal_conv({}, weight, kernel, sequence.batch, rows_at(x, 0, n_rows, cols),
                               rows_at(expected, 0, n_rows, cols));
        std::vector<float> first;
        for (const Isa* isa : isas_here()) {
          for (const std::vector<int64_t>& cut : cuts_of(n_rows)) {
            std::vector<float> state = past, out(x.size());
            int64_t row = 0;
            for (const int64_t n : cut) {
              const int64_t middle = cols / 2;
              for (const IndexRange part : {IndexRange{0, middle}, IndexRange{middle, cols}}) {
                isa->recurrent->causal_conv(rows_at(x, row, n, cols), taps.data(), kernel, part, state.data(),
                                            rows_at(out, row, n, cols));
              }
              row += n;
            }
            EXPECT_EQ(bits_of(state), bits_of(expected_state)) << isa->name;
            if (first.empty()) first = out;
            EXPECT_EQ(bits_of(out), bits_of(first)) << isa->name << " in " << cut.size() << " parts";
          }
        }
        // A rounding per tap, a few in silu.
        expect_close(first, expected, (static_cast<double>(kernel) + 6) * 0x1p-24);
      }
    }
  }
}

struct DeltaCase {
  DeltaNetShape shape;
  int64_t n_rows;
};

class DeltaNet : public testing::TestWithParam<DeltaCase> {};

TEST_P(DeltaNet, FollowsTheReferenceOverAnyCut) {
  const auto& [shape, n_rows] = GetParam();
  std::mt19937 rng(2);
  const int64_t v_cols = shape.n_v_heads * shape.v_dim;
  const int64_t qkv_cols = 2 * shape.n_k_heads * shape.k_dim + v_cols;
  const auto floats = [&](int64_t n, float scale = 1.0f) { return random_floats(rng, static_cast<size_t>(n), scale); };
  std::vector<float> qkv = floats(n_rows * qkv_cols);
  std::vector<float> beta = floats(n_rows * shape.n_v_heads), alpha = floats(n_rows * shape.n_v_heads, 4.0f);
  std::vector<float> a = floats(shape.n_v_heads);
  for (float& value : a) value = -std::fabs(value) * 0.2f;
  const std::vector<float> dt = floats(shape.n_v_heads);
  // One key of zeros, as after a convolution whose columns are dead.
  std::fill_n(qkv.begin() + n_rows / 2 * qkv_cols, 2 * shape.n_k_heads * shape.k_dim, 0.0f);

  const int64_t head_floats = shape.k_dim * shape.v_dim;
  std::vector<float> expected(static_cast<size_t>(n_rows * v_cols));
  std::vector<float> reference_state(static_cast<size_t>(shape.n_v_heads * head_floats));
  const OneSequence sequence(n_rows, reference_state.data());
  const tensor::DeltaNet op{
      .n_k_heads = shape.n_k_heads, .n_v_heads = shape.n_v_heads, .k_dim = shape.k_dim, .v_dim = shape.v_dim};
  reference::delta_net(op, {.conv_floats = 0, .delta_floats = std::ssize(reference_state)},
                       {.qkv = rows_at(qkv, 0, n_rows, qkv_cols),
                        .beta = rows_at(beta, 0, n_rows, shape.n_v_heads),
                        .alpha = rows_at(alpha, 0, n_rows, shape.n_v_heads),
                        .a = a,
                        .dt = dt},
                       sequence.batch, rows_at(expected, 0, n_rows, v_cols));

  std::vector<float> first, first_state;
  for (const Isa* isa : isas_here()) {
    std::vector<float> scratch(static_cast<size_t>(delta_net_scratch(shape)));
    for (const std::vector<int64_t>& cut : cuts_of(n_rows)) {
      std::vector<float> out(expected.size()), state(reference_state.size());
      int64_t row = 0;
      for (const int64_t n : cut) {
        const DeltaNetRows rows{.qkv = rows_at(qkv, row, n, qkv_cols),
                                .beta = rows_at(beta, row, n, shape.n_v_heads),
                                .alpha = rows_at(alpha, row, n, shape.n_v_heads),
                                .out = rows_at(out, row, n, v_cols)};
        for (int64_t h = 0; h < shape.n_v_heads; ++h) {
          isa->recurrent->delta_net(shape, rows, h, a[h], dt[h], state.data() + h * head_floats, scratch.data());
        }
        row += n;
      }
      if (first.empty()) {
        first = out;
        first_state = state;
      }
      EXPECT_EQ(bits_of(out), bits_of(first)) << isa->name << " in " << cut.size() << " parts";
      EXPECT_EQ(bits_of(state), bits_of(first_state)) << isa->name << " in " << cut.size() << " parts";
    }
  }
  // Two chains of k_dim / 2 roundings per token, of random sign; what is in the state has gone through some tokens.
  expect_close(first, expected, 4 * std::sqrt(static_cast<double>(shape.k_dim)) * 0x1p-24);
}

INSTANTIATE_TEST_SUITE_P(Shapes, DeltaNet,
                         testing::Values(DeltaCase{{1, 1, 128, 128}, 40}, DeltaCase{{2, 4, 32, 16}, 100},
                                         DeltaCase{{2, 6, 17, 40}, 33}, DeltaCase{{1, 2, 1, 1}, 8},
                                         DeltaCase{{3, 3, 64, 48}, 1}, DeltaCase{{1, 1, 16, 5}, 16}));

}  // namespace
}  // namespace tempo9::kernels
