// Whole programs: what does not depend on the batch, and the contract of compile and run.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backends/reference_fixture.h"
#include "quant/quant.h"

namespace tempo9::backends {
namespace {

constexpr int64_t kWidth = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8, kVocab = 200;

tensor::WeightId random_matrix(TestProgram& p, tensor::DType dtype, int64_t cols, int64_t rows) {
  const std::vector<float> values =
      random_floats(static_cast<size_t>(cols * rows), static_cast<uint32_t>(p.program.weights.size()), 0.3f);
  std::vector<std::byte> bytes(tensor::row_bytes(dtype, cols) * static_cast<size_t>(rows));
  quant::find_type(dtype)->encode(values.data(), bytes.data(), cols * rows);
  return p.weight(dtype, cols, rows, std::move(bytes));
}

ValueId project(TestProgram& p, ValueId x, int64_t rows, tensor::DType dtype = tensor::DType::kQ8_0) {
  const tensor::Value in = p.program.values[static_cast<size_t>(x)];
  return p.add(tensor::MatMul{.x = x, .weight = random_matrix(p, dtype, in.cols, rows), .out = p.value(rows, in.rows)});
}

// One layer of a decoder with every op but SoftCap and a window of 20 tokens.
TestProgram small_decoder() {
  TestProgram p;
  p.program.rope_frequencies = {{1.0f, 0.3f, 0.1f, 0.01f}};
  p.program.kv_layers = {{.n_kv_heads = kKvHeads, .k_head_dim = kHeadDim, .v_head_dim = kHeadDim, .window = 20}};
  const auto rope = [&](ValueId x) {
    return p.add(tensor::Rope{.x = x,
                              .out = p.value(p.program.values[static_cast<size_t>(x)].cols),
                              .frequencies = 0,
                              .head_dim = kHeadDim,
                              .n_rot = kHeadDim});
  };
  ValueId x = p.add(tensor::Embed{
      .table = random_matrix(p, tensor::DType::kQ4_0, kWidth, kVocab), .out = p.value(kWidth), .scale = 2.0f});
  const ValueId norm = p.add(tensor::RmsNorm{.x = x,
                                             .weight = p.weight(random_floats(kWidth, 90), kWidth),
                                             .out = p.value(kWidth),
                                             .eps = 1e-5f,
                                             .group = kWidth});
  const ValueId q = rope(project(p, norm, kHeads * kHeadDim));
  const ValueId k = rope(project(p, norm, kKvHeads * kHeadDim));
  const ValueId v = project(p, norm, kKvHeads * kHeadDim, tensor::DType::kF16);
  p.program.ops.push_back(tensor::KvWrite{.k = k, .v = v, .kv_layer = 0});
  const ValueId attention = p.add(tensor::Attention{
      .q = q, .out = p.value(kHeads * kHeadDim), .kv_layer = 0, .n_heads = kHeads, .scale = 0.35f, .window = 20});
  x = p.add(tensor::Add{.a = x, .b = project(p, attention, kWidth), .out = p.value(kWidth)});
  const ValueId gated =
      p.add(tensor::GatedActivation{.gate = project(p, x, 64), .up = project(p, x, 64), .out = p.value(64)});
  x = p.add(tensor::Add{.a = x, .b = project(p, gated, kWidth), .out = p.value(kWidth)});
  const ValueId wanted = p.add(tensor::SelectOutputs{.x = x, .out = p.value(kWidth, tensor::RowSet::kOutputs)});
  p.program.logits = project(p, wanted, kVocab);
  return p;
}

// Logits of each (sequence, slot) that `steps` asks for, as bits.
using Logits = std::map<std::pair<int32_t, int32_t>, std::vector<float>>;

Logits run_steps(const TestProgram& p, const std::vector<Rows>& steps) {
  const FakeKv kv(p.program, 2, 4);
  const auto executable = p.compile({.max_rows = 256, .max_outputs = 256});
  Logits result;
  for (const Rows& rows : steps) {
    // The caller's rows may be wider than the vocabulary.
    std::vector<float> memory(rows.outputs.size() * (kVocab + 3));
    const MatView<float> logits{memory.data(), static_cast<int64_t>(rows.outputs.size()), kVocab, kVocab + 3};
    executable->run(rows.batch(kv.view()), {.logits = logits});
    for (size_t i = 0; i < rows.outputs.size(); ++i) {
      const size_t row = static_cast<size_t>(rows.outputs[i]);
      const std::span<float> values = logits.row_span(static_cast<int64_t>(i));
      result[{rows.sequences[row], rows.slots[row]}] = {values.begin(), values.end()};
    }
  }
  return result;
}

constexpr int32_t kTokens = 90;

TEST(ReferenceRun, LogitsDoNotDependOnChunksOrNeighbours) {
  const TestProgram p = small_decoder();
  Rows whole;
  whole.append(0, 0, kTokens);
  whole.append(1, 0, kTokens, 100);
  const Logits expected = run_steps(p, {whole});
  ASSERT_EQ(expected.size(), static_cast<size_t>(2 * kTokens));
  for (const auto& [row, logits] : expected) {
    for (float value : logits) ASSERT_TRUE(std::isfinite(value));
  }

  for (int32_t chunk : {1, 7, 31, 32, 64}) {
    std::vector<Rows> together, apart;
    for (int32_t begin = 0; begin < kTokens; begin += chunk) {
      const int32_t end = std::min(begin + chunk, kTokens);
      together.emplace_back();
      together.back().append(1, begin, end, 100);
      together.back().append(0, begin, end);
      apart.emplace_back();
      apart.back().append(0, begin, end);
    }
    for (int32_t slot = 0; slot < kTokens; ++slot) {
      apart.emplace_back();
      apart.back().append(1, slot, slot + 1, 100);
    }
    EXPECT_EQ(run_steps(p, together), expected) << chunk;
    EXPECT_EQ(run_steps(p, apart), expected) << chunk;
  }
}

TEST(ReferenceRun, GivesOnlyTheWantedRows) {
  const TestProgram p = small_decoder();
  Rows all;
  all.append(0, 0, 40);
  const Logits expected = run_steps(p, {all});
  Rows some = all;
  some.outputs = {3, 39};
  const Logits got = run_steps(p, {some});
  ASSERT_EQ(got.size(), 2u);
  for (const auto& [row, logits] : got) EXPECT_EQ(logits, expected.at(row));
}

TEST(ReferenceRun, NeedsNoLogitsWhenNoneAreWanted) {
  const TestProgram p = small_decoder();
  Rows first, last, all;
  first.append(0, 0, 39);
  first.outputs.clear();
  last.append(0, 39, 40);
  all.append(0, 0, 40);
  EXPECT_EQ(run_steps(p, {first, last}).at({0, 39}), run_steps(p, {all}).at({0, 39}));
}

TEST(ReferenceRun, ShowsEachValueOnceInTheOrderOfTheOps) {
  const TestProgram p = small_decoder();
  const FakeKv kv(p.program, 1, 1);
  Rows rows;
  rows.append(0, 0, 5);
  rows.outputs = {4};
  std::vector<ValueId> seen;
  std::vector<float> logits(kVocab), seen_logits;
  const Observer observer = [&](ValueId id, MatView<const float> value) {
    seen.push_back(id);
    const tensor::Value& spec = p.program.values[static_cast<size_t>(id)];
    EXPECT_EQ(value.rows, spec.rows == tensor::RowSet::kBatch ? 5 : 1);
    EXPECT_EQ(value.cols, spec.cols);
    if (id == p.program.logits) seen_logits.assign(value.data, value.data + value.cols);
  };
  p.compile()->run(rows.batch(kv.view()), {.logits = {logits.data(), 1, kVocab, kVocab}}, &observer);
  std::vector<ValueId> made;
  for (const tensor::Op& op : p.program.ops) {
    std::visit(
        [&](const auto& o) {
          if constexpr (requires { o.out; }) made.push_back(o.out);
        },
        op);
  }
  EXPECT_EQ(seen, made);
  EXPECT_EQ(seen_logits, logits);
}

TEST(ReferenceRun, RefusesWeightsWithoutADecoderByName) {
  TestProgram p;
  const ValueId x = input(p, random_floats(256, 1), 256);
  p.add(tensor::MatMul{
      .x = x, .weight = p.weight(tensor::DType::kIQ2_XS, 256, 1, std::vector<std::byte>(74)), .out = p.value(1)});
  const auto result = make_reference_backend()->compile(p.program, p.views(), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(result.error().message().find("w1"), std::string::npos) << result.error().message();
  EXPECT_NE(result.error().message().find("IQ2_XS"), std::string::npos) << result.error().message();
}

TEST(ReferenceRun, HoldsItsCacheInF32) {
  const auto backend = make_reference_backend();
  ASSERT_EQ(backend->kv_types().front(), tensor::KvType::kF32);
  const KvPageBytes bytes =
      backend->kv_page_bytes({.n_kv_heads = 2, .k_head_dim = 8, .v_head_dim = 4}, tensor::KvType::kF32);
  EXPECT_EQ(bytes.k, 32u * 2 * 8 * 4);
  EXPECT_EQ(bytes.v, 32u * 2 * 4 * 4);
}

}  // namespace
}  // namespace tempo9::backends
