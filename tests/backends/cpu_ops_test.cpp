// Ops that only some architectures have, on the CPU backend. (What all have is in cpu_test.cpp.)
#include <gtest/gtest.h>

#include "backends/cpu_fixture.h"

namespace tempo9::backends {
namespace {

using tensor::DType;

constexpr int64_t kWidth = 256, kHeadDim = 16, kHeads = 4, kKvHeads = 2, kVocab = 100;

// Rotation by three planes of positions, the first half of a query/gate projection taken per head, a layer that reads
// the keys of another, and the rest of the operations on one row.
TestProgram row_ops() {
  TestProgram p;
  p.program.rope_frequencies = {{1.0f, 0.3f, 0.1f, 0.03f, 0.01f}};
  p.program.rope_axes = {{0, 1, 2, 0, 0}};
  p.program.kv_layers = {{.n_kv_heads = kKvHeads, .k_head_dim = kHeadDim, .v_head_dim = 2 * kHeadDim}};
  const ValueId embedded = p.add(tensor::Embed{
      .table = random_matrix(p, DType::kQ8_0, kWidth, kVocab, 0.5f), .out = p.value(kWidth), .scale = 3.0f});
  const ValueId hidden = p.add(tensor::Input{.out = p.value(kWidth / 2)});
  ValueId x = p.add(tensor::Concat{.a = norm(p, hidden), .b = norm(p, embedded), .out = p.value(kWidth * 3 / 2)});
  x = project(p, x, kWidth, DType::kQ4_0);
  const auto rope = [&](ValueId from) {
    return p.add(tensor::Rope{.x = from,
                              .out = p.value(value_of(p, from).cols),
                              .frequencies = 0,
                              .axes = 0,
                              .head_dim = kHeadDim,
                              .n_rot = 10,
                              .magnitude = 1.0f});
  };
  const ValueId k = rope(project(p, x, kKvHeads * kHeadDim, DType::kQ8_0));
  const ValueId v = project(p, x, kKvHeads * 2 * kHeadDim, DType::kQ8_0);
  p.program.ops.push_back(tensor::KvWrite{.k = k, .v = v, .kv_layer = 0});
  for (int i = 0; i < 2; ++i) {
    const ValueId both = project(p, x, kHeads * 2 * kHeadDim, DType::kQ8_0);
    const auto part = [&](int64_t begin) {
      return p.add(tensor::TakeColumns{
          .x = both, .out = p.value(kHeads * kHeadDim), .group = 2 * kHeadDim, .begin = begin, .count = kHeadDim});
    };
    const ValueId gate = part(kHeadDim);
    const ValueId q =
        p.add(tensor::PositionScale{.x = rope(part(0)), .out = p.value(kHeads * kHeadDim), .beta = 0.7f, .period = 8});
    const ValueId attended = p.add(tensor::Attention{
        .q = q, .out = p.value(kHeads * 2 * kHeadDim), .kv_layer = 0, .n_heads = kHeads, .scale = 0.25f});
    const ValueId twice = p.add(tensor::Concat{.a = gate, .b = gate, .out = p.value(kHeads * 2 * kHeadDim)});
    const ValueId gated = p.add(tensor::GatedActivation{.gate = twice,
                                                        .up = attended,
                                                        .out = p.value(kHeads * 2 * kHeadDim),
                                                        .activation = tensor::Activation::kSigmoid});
    x = add(p, x, project(p, gated, kWidth, DType::kQ8_0));
    const ValueId shared_gate = project(p, x, 1, DType::kF32);
    const ValueId clamped = p.add(tensor::GatedActivation{.gate = project(p, x, kWidth, DType::kBF16),
                                                          .up = project(p, x, kWidth, DType::kQ4_K),
                                                          .out = p.value(kWidth),
                                                          .activation = tensor::Activation::kClampedSwiglu});
    x = add(p, x, p.add(tensor::GateRows{.gate = shared_gate, .x = clamped, .out = p.value(kWidth)}));
    x = p.add(tensor::Scale{.x = x, .by = p.weight({1.7f}, 1), .out = p.value(kWidth), .factor = 0.5f});
  }
  p.program.hidden = x;
  end_program(p, x, kVocab, DType::kQ8_0);
  return p;
}

// See cpu_test.cpp: eight bits of activation in some six products.
TEST(CpuRowOps, AgreeWithTheReference) { EXPECT_LT(error_of(*cpu(), row_ops(), 90), 0.02); }
TEST(CpuRowOps, HaveEqualBitsOverThreadsAndChunks) { expect_equal_over_threads_and_chunks(row_ops(), 70); }
TEST(CpuRowOps, HaveEqualBitsOverIsas) { expect_equal_over_isas(row_ops(), 40); }
TEST(CpuRowOps, DoNotChangeForAnObserver) { expect_an_observer_changes_nothing(row_ops(), 30); }

// --- Mixture of experts ----------------------------------------------------------------------------------------------

constexpr int64_t kExperts = 6, kUsed = 3;

struct ExpertTypes {
  DType gate, up, down;
  int64_t n_inner;
  tensor::Activation activation;
  bool fused;  // gate and up are one tensor
  bool biased;
};

ValueId experts(TestProgram& p, ValueId x, ValueId router, const ExpertTypes& types) {
  const int64_t n_gate = types.fused ? 2 * types.n_inner : types.n_inner;
  const auto biases = [&](int64_t cols) {
    return p.weight(random_floats(static_cast<size_t>(kExperts * cols), static_cast<uint32_t>(cols), 0.3f), cols);
  };
  tensor::Experts op{.x = x, .router = router, .out = p.value(kWidth), .n_used = kUsed, .activation = types.activation};
  op.gate = random_matrix(p, types.gate, kWidth, n_gate, 0.06f, kExperts);
  if (!types.fused) op.up = random_matrix(p, types.up, kWidth, types.n_inner, 0.06f, kExperts);
  op.down = random_matrix(p, types.down, types.n_inner, kWidth, 0.06f, kExperts);
  if (types.biased) {
    op.gate_bias = biases(n_gate);
    if (!types.fused) op.up_bias = biases(types.n_inner);
    op.down_bias = biases(kWidth);
    op.expert_scale = p.weight(random_floats(kExperts, 5), kExperts);
    op.weight_scale = 2.5f;
  }
  return p.add(op);
}

// The routers see what is exact on every backend: a choice that fell otherwise would tell nothing about the products.
TestProgram mixture(const std::vector<ExpertTypes>& layers) {
  TestProgram p;
  const ValueId embedded = p.add(tensor::Embed{
      .table = random_matrix(p, DType::kF32, kWidth, kVocab, 1.0f), .out = p.value(kWidth), .scale = 1.0f});
  ValueId x = embedded;
  for (const ExpertTypes& types : layers) {
    const ValueId router = project(p, embedded, kExperts, DType::kF32, true);
    x = add(p, x, experts(p, norm(p, x), router, types));
  }
  end_program(p, x, kVocab, DType::kF32);
  return p;
}

constexpr auto kSilu = tensor::Activation::kSilu;
constexpr auto kClamped = tensor::Activation::kClampedSwiglu;

TestProgram float_mixture() {
  return mixture({{DType::kF32, DType::kBF16, DType::kF16, 40, kSilu, false, false},
                  {DType::kBF16, DType::kBF16, DType::kF32, 100, kClamped, true, true}});
}
TestProgram quantized_mixture() {
  return mixture({{DType::kQ4_K, DType::kQ8_0, DType::kQ6_K, 512, kSilu, false, false},
                  {DType::kMXFP4, DType::kMXFP4, DType::kMXFP4, 96, kClamped, false, true},
                  {DType::kQ4_0, DType::kQ4_0, DType::kQ8_0, 288, tensor::Activation::kGeluTanh, true, true}});
}

// Sums of f32 in another order.
TEST(CpuExperts, AgreeWithTheReferenceInFloats) { EXPECT_LT(error_of(*cpu(), float_mixture(), 30), 3e-6); }
// Eight bits of activation: see cpu_test.cpp.
TEST(CpuExperts, AgreeWithTheReferenceInBlocks) { EXPECT_LT(error_of(*cpu(), quantized_mixture(), 30), 0.02); }
TEST(CpuExperts, HaveEqualBitsOverThreadsAndChunks) {
  expect_equal_over_threads_and_chunks(float_mixture(), 70);
  expect_equal_over_threads_and_chunks(quantized_mixture(), 70);
}
TEST(CpuExperts, HaveEqualBitsOverIsas) {
  expect_equal_over_isas(float_mixture(), 30);
  expect_equal_over_isas(quantized_mixture(), 30);
}
TEST(CpuExperts, DoNotChangeForAnObserver) { expect_an_observer_changes_nothing(quantized_mixture(), 15); }

// More rows than one tile of an expert takes.
TEST(CpuExperts, TakeManyRowsOfOneExpert) {
  const TestProgram p = float_mixture();
  Rows rows;
  for (int32_t slot = 0; slot < 1000; ++slot) rows.append(0, slot, slot + 1, slot % kVocab - slot);
  rows.outputs = {17, 117, 917, 999};
  const Results got = run_steps(*cpu(), p, {rows}, 40);
  expect_same_bits(run_steps(*cpu(3, "scalar"), p, {rows}, 40), got, "scalar");
  // The same token again and again.
  EXPECT_EQ(bits_of(got.at({0, 17})), bits_of(got.at({0, 117})));
  EXPECT_EQ(bits_of(got.at({0, 17})), bits_of(got.at({0, 917})));
}

TEST(CpuExperts, ForOutputRowsOnly) {
  TestProgram p;
  ValueId x = p.add(tensor::Embed{
      .table = random_matrix(p, DType::kF32, kWidth, kVocab, 1.0f), .out = p.value(kWidth), .scale = 1.0f});
  x = p.add(tensor::SelectOutputs{.x = x, .out = p.value(kWidth, tensor::RowSet::kOutputs)});
  const ValueId router = project(p, x, kExperts, DType::kF32);
  tensor::Experts op{.x = x, .router = router, .out = p.value(kWidth, tensor::RowSet::kOutputs), .n_used = kUsed};
  op.gate = random_matrix(p, DType::kQ8_0, kWidth, 64, 0.06f, kExperts);
  op.up = random_matrix(p, DType::kQ8_0, kWidth, 64, 0.06f, kExperts);
  op.down = random_matrix(p, DType::kQ8_0, 64, kWidth, 0.06f, kExperts);
  p.program.logits = project(p, p.add(op), kVocab, DType::kF32);
  const auto reference = make_reference_backend();
  Rows some = prompts(40);
  some.outputs = {3, 50, 69};
  Rows none = prompts(40);
  none.outputs.clear();
  const Results whole = run_steps(*cpu(), p, {prompts(40)});
  const Results got = run_steps(*cpu(), p, {none, some});
  ASSERT_EQ(got.size(), 3u);
  for (const auto& [row, logits] : got) EXPECT_EQ(bits_of(logits), bits_of(whole.at(row)));
  EXPECT_LT(error_of(*cpu(), p, 40), 0.02);
}

TEST(CpuExperts, RefuseWeightsByName) {
  TestProgram p;
  const ValueId x = input(p, random_floats(256, 1), 256);
  tensor::Experts op{.x = x, .router = x, .out = p.value(1), .n_used = 1};
  op.gate = op.up = random_matrix(p, DType::kQ8_0, 256, 256, 0.06f, 1);
  op.down = p.weight(DType::kIQ2_XS, 256, 1, std::vector<std::byte>(74));
  p.add(op);
  const auto result = cpu()->compile(p.program, p.views(), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(result.error().message().find("w2"), std::string::npos) << result.error().message();
}

// --- Recurrent layers ------------------------------------------------------------------------------------------------

// Two layers of convolution and delta net: more value heads than key heads and value columns that do not fill the last
// slice; then equal heads, an odd number of key columns and a longer convolution.
TestProgram recurrent() {
  TestProgram p;
  ValueId x = p.add(tensor::Embed{
      .table = random_matrix(p, DType::kF32, kWidth, kVocab, 1.0f), .out = p.value(kWidth), .scale = 1.0f});
  struct Shape {
    int64_t n_k_heads, n_v_heads, k_dim, v_dim, kernel;
  };
  int32_t layer = 0;
  for (const Shape& s : {Shape{2, 6, 32, 40, 4}, Shape{3, 3, 17, 16, 6}}) {
    const int64_t qkv_cols = 2 * s.n_k_heads * s.k_dim + s.n_v_heads * s.v_dim;
    p.program.state_layers.push_back(
        {.conv_floats = (s.kernel - 1) * qkv_cols, .delta_floats = s.n_v_heads * s.k_dim * s.v_dim});
    const ValueId in = norm(p, x);
    const ValueId u = project(p, in, qkv_cols, DType::kF32);
    const ValueId beta = project(p, in, s.n_v_heads, DType::kF32);
    const ValueId alpha = project(p, in, s.n_v_heads, DType::kF32);
    const WeightId taps = p.weight(random_floats(static_cast<size_t>(qkv_cols * s.kernel), 21, 0.5f), s.kernel);
    const ValueId qkv =
        p.add(tensor::CausalConv{.x = u, .weight = taps, .out = p.value(qkv_cols), .state_layer = layer});
    std::vector<float> a(static_cast<size_t>(s.n_v_heads));
    for (size_t h = 0; h < a.size(); ++h) a[h] = -0.05f * static_cast<float>(h * h + 1);
    const ValueId mixed = p.add(tensor::DeltaNet{.qkv = qkv,
                                                 .beta = beta,
                                                 .alpha = alpha,
                                                 .a = p.weight(a, s.n_v_heads),
                                                 .dt = p.weight(random_floats(a.size(), 23), s.n_v_heads),
                                                 .out = p.value(s.n_v_heads * s.v_dim),
                                                 .state_layer = layer,
                                                 .n_k_heads = s.n_k_heads,
                                                 .n_v_heads = s.n_v_heads,
                                                 .k_dim = s.k_dim,
                                                 .v_dim = s.v_dim});
    x = add(p, x, project(p, mixed, kWidth, DType::kF32));
    ++layer;
  }
  end_program(p, x, kVocab, DType::kF32);
  return p;
}

// f32 sums in another order, of up to 90 tokens' states.
TEST(CpuRecurrent, AgreesWithTheReference) { EXPECT_LT(error_of(*cpu(), recurrent(), 90), 1e-5); }
// The chunks of these carry the state, and two sequences share them.
TEST(CpuRecurrent, HasEqualBitsOverThreadsAndChunks) { expect_equal_over_threads_and_chunks(recurrent(), 70); }
TEST(CpuRecurrent, HasEqualBitsOverIsas) { expect_equal_over_isas(recurrent(), 40); }
TEST(CpuRecurrent, DoesNotChangeForAnObserver) { expect_an_observer_changes_nothing(recurrent(), 30); }

}  // namespace
}  // namespace tempo9::backends
