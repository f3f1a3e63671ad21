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

}  // namespace
}  // namespace tempo9::backends
