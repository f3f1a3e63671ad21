// The CPU backend: its plan against the reference backend, and equality of bits over everything that must not matter.
#include "backends/cpu/cpu.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "backends/reference_fixture.h"
#include "kernels/kernels.h"
#include "quant/quant.h"

namespace tempo9::backends {
namespace {

using tensor::DType;

constexpr int64_t kWidth = 256, kHeads = 4, kKvHeads = 2, kHeadDim = 24, kInner = 512, kVocab = 150;
constexpr int64_t kWindow = 40;

WeightId random_matrix(TestProgram& p, DType dtype, int64_t cols, int64_t rows, float sigma = 0.06f) {
  const std::vector<float> values =
      random_floats(static_cast<size_t>(cols * rows), static_cast<uint32_t>(p.program.weights.size()), sigma);
  std::vector<std::byte> bytes(tensor::row_bytes(dtype, cols) * static_cast<size_t>(rows));
  quant::find_type(dtype)->encode(values.data(), bytes.data(), cols * rows);
  return p.weight(dtype, cols, rows, std::move(bytes));
}

ValueId project(TestProgram& p, ValueId x, int64_t rows, DType dtype, bool biased = false) {
  const tensor::Value in = p.program.values[static_cast<size_t>(x)];
  tensor::MatMul op{.x = x, .weight = random_matrix(p, dtype, in.cols, rows), .out = p.value(rows, in.rows)};
  if (biased) op.bias = p.weight(random_floats(static_cast<size_t>(rows), 31, 0.1f), rows);
  return p.add(op);
}

ValueId norm(TestProgram& p, ValueId x, int64_t group = 0) {
  const tensor::Value in = p.program.values[static_cast<size_t>(x)];
  const int64_t size = group > 0 ? group : in.cols;
  std::vector<float> weight = random_floats(static_cast<size_t>(size), 7, 0.2f);
  for (float& w : weight) w += 1.0f;
  return p.add(tensor::RmsNorm{
      .x = x, .weight = p.weight(weight, size), .out = p.value(in.cols, in.rows), .eps = 1e-5f, .group = size});
}

ValueId rope(TestProgram& p, ValueId x, int32_t frequencies, tensor::RopePairs pairs) {
  const int64_t n_rot = 2 * std::ssize(p.program.rope_frequencies[static_cast<size_t>(frequencies)]);
  return p.add(tensor::Rope{.x = x,
                            .out = p.value(p.program.values[static_cast<size_t>(x)].cols),
                            .frequencies = frequencies,
                            .head_dim = kHeadDim,
                            .n_rot = n_rot,
                            .pairs = pairs,
                            .magnitude = 1.1f});
}

// One decoder layer. `alternate` picks the other variant of everything that has two.
ValueId layer(TestProgram& p, ValueId x, int32_t index, bool alternate) {
  const tensor::RopePairs pairs = alternate ? tensor::RopePairs::kInterleaved : tensor::RopePairs::kHalves;
  p.program.kv_layers.push_back(
      {.n_kv_heads = kKvHeads, .k_head_dim = kHeadDim, .v_head_dim = kHeadDim, .window = alternate ? kWindow : 0});
  const DType dtype = alternate ? DType::kQ4_K : DType::kQ8_0;
  const ValueId in = norm(p, x);
  // In this order the three products can only meet by their dependencies.
  ValueId q = project(p, in, kHeads * kHeadDim, dtype, alternate);
  q = rope(p, norm(p, q, kHeadDim), alternate ? 1 : 0, pairs);
  ValueId k = project(p, in, kKvHeads * kHeadDim, dtype);
  k = rope(p, k, alternate ? 1 : 0, pairs);
  const ValueId v = project(p, in, kKvHeads * kHeadDim, alternate ? DType::kQ6_K : DType::kF16, true);
  p.program.ops.push_back(tensor::KvWrite{.k = k, .v = v, .kv_layer = index});
  tensor::Attention attention{.q = q,
                              .out = p.value(kHeads * kHeadDim),
                              .kv_layer = index,
                              .n_heads = kHeads,
                              .scale = 0.2f,
                              .window = alternate ? kWindow : 0,
                              .softcap = alternate ? 20.0f : 0.0f};
  if (alternate) attention.sinks = p.weight(random_floats(kHeads, 77), kHeads);
  const ValueId mixed = project(p, p.add(attention), kWidth, DType::kQ4_0);
  x = p.add(tensor::Add{.a = x, .b = mixed, .out = p.value(kWidth)});
  const ValueId ff = norm(p, x);
  const ValueId gated = p.add(
      tensor::GatedActivation{.gate = project(p, ff, kInner, dtype, alternate),
                              .up = project(p, ff, kInner, DType::kQ8_0),
                              .out = p.value(kInner),
                              .activation = alternate ? tensor::Activation::kGeluTanh : tensor::Activation::kSilu});
  const ValueId down = project(p, gated, kWidth, alternate ? DType::kF32 : DType::kQ4_K);
  return p.add(tensor::Add{.a = x, .b = down, .out = p.value(kWidth)});
}

// Two layers in which every op occurs.
TestProgram small_decoder() {
  TestProgram p;
  for (int64_t n_rot : {kHeadDim, kHeadDim / 2}) {
    std::vector<float> frequencies(static_cast<size_t>(n_rot / 2));
    for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = std::pow(0.5f, static_cast<float>(i));
    p.program.rope_frequencies.push_back(frequencies);
  }
  ValueId x = p.add(tensor::Embed{
      .table = random_matrix(p, DType::kQ4_0, kWidth, kVocab, 0.5f), .out = p.value(kWidth), .scale = 2.0f});
  x = layer(p, x, 0, false);
  x = layer(p, x, 1, true);
  x = p.add(tensor::SelectOutputs{.x = x, .out = p.value(kWidth, tensor::RowSet::kOutputs)});
  x = project(p, norm(p, x), kVocab, DType::kQ6_K);
  x = p.add(tensor::SoftCap{.x = x, .out = p.value(kVocab, tensor::RowSet::kOutputs), .cap = 5.0f});
  p.program.logits = x;
  return p;
}

// Pages in a shuffled order for `backend`'s default type. Fresh memory is zero, as the cache gives it.
class Pages {
 public:
  Pages(Backend& backend, const Program& program, int32_t n_sequences, int32_t pages_per_sequence) {
    const tensor::KvType type = backend.kv_types().front();
    const int32_t n_pages = n_sequences * pages_per_sequence;
    for (const tensor::KvLayerSpec& spec : program.kv_layers) {
      const KvPageBytes bytes = backend.kv_page_bytes(spec, type);
      std::byte* parts[2];
      const size_t sizes[2] = {bytes.k, bytes.v};
      for (int i = 0; i < 2; ++i) {
        memory_.push_back(*backend.reserve(sizes[i] * static_cast<size_t>(n_pages)));
        parts[i] = memory_.back().data();
      }
      layers_.push_back(
          {.k = parts[0], .v = parts[1], .k_page_bytes = bytes.k, .v_page_bytes = bytes.v, .type = type, .pool = 0});
    }
    std::vector<int32_t> order(static_cast<size_t>(n_pages));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
    for (int32_t s = 0; s < n_sequences; ++s) {
      const auto begin = order.begin() + s * pages_per_sequence;
      pages_.emplace_back(begin, begin + pages_per_sequence);
    }
    for (const auto& pages : pages_) tables_.push_back({pages});
  }
  tensor::KvView view() const { return {layers_, tables_, static_cast<int32_t>(tables_.size())}; }

 private:
  std::vector<Buffer> memory_;
  std::vector<tensor::KvLayerView> layers_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<tensor::PageTable> tables_;
};

std::vector<std::string> isas_here() {
  std::vector<std::string> names;
  for (const kernels::Isa& isa : kernels::all_isas()) {
    if (isa.runs_here()) names.emplace_back(isa.name);
  }
  return names;
}

std::unique_ptr<Backend> cpu(int n_threads = 2, const std::string& isa = "") {
  return *make_cpu_backend({.n_threads = n_threads, .isa = isa});
}

using Bits = std::vector<uint32_t>;
Bits bits_of(std::span<const float> values) {
  Bits bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Logits of each (sequence, slot) that the steps ask for.
using Logits = std::map<std::pair<int32_t, int32_t>, std::vector<float>>;

Logits run_steps(Backend& backend, const TestProgram& p, const std::vector<Rows>& steps, int32_t pages = 4,
                 const Observer* observer = nullptr) {
  const Pages kv(backend, p.program, 2, pages);
  auto executable = *backend.compile(p.program, p.views(), {.max_rows = 1100, .max_outputs = 256});
  Logits result;
  for (const Rows& rows : steps) {
    const auto n_outputs = std::ssize(rows.outputs);
    std::vector<float> memory(static_cast<size_t>(n_outputs * (kVocab + 3)));  // wider than the vocabulary
    const MatView<float> logits{memory.data(), n_outputs, kVocab, kVocab + 3};
    executable->run(rows.batch(kv.view()), {.logits = logits}, observer);
    for (int64_t i = 0; i < n_outputs; ++i) {
      const auto row = static_cast<size_t>(rows.outputs[static_cast<size_t>(i)]);
      const std::span<float> values = logits.row_span(i);
      result[{rows.sequences[row], rows.slots[row]}] = {values.begin(), values.end()};
    }
  }
  return result;
}

void expect_same_bits(const Logits& got, const Logits& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (const auto& [row, logits] : expected) {
    ASSERT_EQ(bits_of(got.at(row)), bits_of(logits)) << what << ", sequence " << row.first << " slot " << row.second;
  }
}

// Two sequences as prompts in one batch.
Rows prompts(int32_t n_tokens) {
  Rows rows;
  rows.append(0, 0, n_tokens);
  rows.append(1, 0, n_tokens - 10, 10);
  return rows;
}

// The same in chunks of rows of both sequences.
std::vector<Rows> in_chunks(int32_t n_tokens, int32_t chunk) {
  std::vector<Rows> steps;
  for (int32_t begin = 0; begin < n_tokens; begin += chunk) {
    Rows rows;
    rows.append(0, begin, std::min(begin + chunk, n_tokens));
    if (begin < n_tokens - 10) rows.append(1, begin, std::min(begin + chunk, n_tokens - 10), 10);
    steps.push_back(rows);
  }
  return steps;
}

// Each sequence on its own, a token at a time.
std::vector<Rows> token_by_token(int32_t n_tokens) {
  std::vector<Rows> steps;
  for (int32_t sequence : {0, 1}) {
    for (int32_t slot = 0; slot < n_tokens - 10 * sequence; ++slot) {
      steps.emplace_back();
      steps.back().append(sequence, slot, slot + 1, 10 * sequence);
    }
  }
  return steps;
}

TEST(CpuBackend, AgreesWithTheReference) {
  const TestProgram p = small_decoder();
  const auto reference = make_reference_backend();
  const auto backend = cpu();
  const Logits expected = run_steps(*reference, p, {prompts(90)});
  const Logits got = run_steps(*backend, p, {prompts(90)});
  double error = 0.0, size = 0.0;
  for (const auto& [row, logits] : expected) {
    for (size_t i = 0; i < logits.size(); ++i) {
      error += std::pow(static_cast<double>(got.at(row)[i] - logits[i]), 2);
      size += std::pow(static_cast<double>(logits[i]), 2);
    }
  }
  // Activations rounded to 8 bits are off by about 1 in 250 of their block's largest, some 0.4 % of their norm, in each
  // of 10 products on the longest path, half of which the residual keeps away from the rest.
  EXPECT_LT(std::sqrt(error / size), 0.02);
  EXPECT_GT(size, 0.0);
}

TEST(CpuBackend, HasEqualBitsOverThreadsAndChunks) {
  constexpr int32_t kTokens = 70;
  const TestProgram p = small_decoder();
  const Logits expected = run_steps(*cpu(1), p, {prompts(kTokens)});
  for (int n_threads = 1; n_threads <= 8; ++n_threads) {
    const auto backend = cpu(n_threads);
    expect_same_bits(run_steps(*backend, p, {prompts(kTokens)}), expected, backend->description());
    for (int32_t chunk : {7, 32, 64}) {
      if (n_threads > 3 && chunk > 7) continue;
      expect_same_bits(run_steps(*backend, p, in_chunks(kTokens, chunk)), expected,
                       backend->description() + " in chunks of " + std::to_string(chunk));
    }
    if (n_threads > 3) continue;
    expect_same_bits(run_steps(*backend, p, token_by_token(kTokens)), expected,
                     backend->description() + " token by token");
  }
}

TEST(CpuBackend, HasEqualBitsOverIsas) {
  const TestProgram p = small_decoder();
  const Logits expected = run_steps(*cpu(1, "scalar"), p, {prompts(40)});
  for (const std::string& isa : isas_here()) {
    expect_same_bits(run_steps(*cpu(2, isa), p, {prompts(40)}), expected, isa);
    expect_same_bits(run_steps(*cpu(2, isa), p, in_chunks(40, 1)), expected, isa + " two rows at a time");
  }
}

// Long enough that one decoded row splits its attention by spans.
TEST(CpuBackend, HasEqualBitsOverSpans) {
  const TestProgram p = small_decoder();
  const auto prompt = [](int32_t n) {
    Rows rows;
    for (int32_t slot = 0; slot < n; ++slot) rows.append(0, slot, slot + 1, slot % 100 - slot);
    rows.outputs.clear();
    return rows;
  };
  const auto last = [](int32_t slot) {
    Rows rows;
    rows.append(0, slot, slot + 1, slot % 100 - slot);
    return rows;
  };
  Rows whole = prompt(1071);
  whole.outputs = {1070};
  const Logits expected = run_steps(*cpu(1), p, {whole}, 40);
  for (int n_threads : {1, 2, 5}) {
    expect_same_bits(run_steps(*cpu(n_threads), p, {prompt(1070), last(1070)}, 40), expected,
                     std::to_string(n_threads));
  }
}

// The traced plan takes other steps and other memory.
TEST(CpuBackend, ShowsAnObserverEveryValueWithoutChangingAny) {
  const TestProgram p = small_decoder();
  const auto backend = cpu();
  for (const std::vector<Rows>& steps : {std::vector<Rows>{prompts(30)}, token_by_token(30)}) {
    std::vector<ValueId> seen;
    std::map<ValueId, int64_t> rows_seen;
    const Observer observer = [&](ValueId id, MatView<const float> value) {
      EXPECT_EQ(value.cols, p.program.values[static_cast<size_t>(id)].cols);
      if (rows_seen[id] == 0) seen.push_back(id);
      rows_seen[id] += value.rows;
      for (int64_t r = 0; r < value.rows; ++r) {
        for (int64_t c = 0; c < value.cols; ++c) ASSERT_TRUE(std::isfinite(value.row(r)[c])) << id;
      }
    };
    expect_same_bits(run_steps(*backend, p, steps, 4, &observer), run_steps(*backend, p, steps), "observed");
    EXPECT_EQ(seen.size(), p.program.values.size());
    for (const auto& [id, n] : rows_seen) EXPECT_EQ(n, 50) << id;
  }
}

TEST(CpuBackend, GivesOnlyTheWantedRows) {
  const TestProgram p = small_decoder();
  const auto backend = cpu();
  const Logits expected = run_steps(*backend, p, {prompts(40)});
  Rows some = prompts(40);
  some.outputs = {3, 69};
  Rows none = prompts(40);
  none.outputs.clear();
  const Logits got = run_steps(*backend, p, {none, some});
  ASSERT_EQ(got.size(), 2u);
  for (const auto& [row, logits] : got) EXPECT_EQ(bits_of(logits), bits_of(expected.at(row)));
}

TEST(CpuBackend, RefusesWeightsItCannotUseByName) {
  TestProgram p;
  const ValueId x = input(p, random_floats(256, 1), 256);
  p.add(tensor::MatMul{
      .x = x, .weight = p.weight(DType::kIQ2_XS, 256, 1, std::vector<std::byte>(74)), .out = p.value(1)});
  const auto result = cpu()->compile(p.program, p.views(), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(result.error().message().find("w1"), std::string::npos) << result.error().message();
  EXPECT_NE(result.error().message().find("IQ2_XS"), std::string::npos) << result.error().message();
}

TEST(CpuBackend, SaysWhatItIs) {
  EXPECT_EQ(cpu(3, "scalar")->description(), "cpu scalar (portable C++), 3 threads");
  EXPECT_EQ(cpu(1, "scalar")->description(), "cpu scalar (portable C++), 1 thread");
  EXPECT_EQ(cpu()->name(), "cpu");
}

TEST(CpuBackend, RefusesAnUnknownIsaAndListsTheOthers) {
  const auto result = make_cpu_backend({.isa = "mmx"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(result.error().message().find("'mmx'"), std::string::npos) << result.error().message();
  EXPECT_NE(result.error().message().find("scalar"), std::string::npos) << result.error().message();
}

TEST(CpuBackend, TakesTheIsaFromTheEnvironmentUnlessToldOtherwise) {
  ::setenv("TEMPO9_ISA", "scalar", 1);
  const std::string from_environment = cpu()->description();
  const std::string explicitly = cpu(2, isas_here().back())->description();
  ::setenv("TEMPO9_ISA", "nonsense", 1);
  const bool refused = !make_cpu_backend({}).has_value();
  ::unsetenv("TEMPO9_ISA");
  EXPECT_NE(from_environment.find("cpu scalar"), std::string::npos);
  EXPECT_NE(explicitly.find("cpu " + isas_here().back()), std::string::npos);
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace tempo9::backends
