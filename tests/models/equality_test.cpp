// The same logits, bit for bit, however the tokens are cut into passes, whoever else is in the batch, and with any
// number of threads (docs/decisions, numeric contract).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

#include "cli/evaluate.h"
#include "goldens.h"
#include "kv/cache.h"
#include "tensor/kv_type_names.h"
#include "test_backends.h"

namespace tempo9 {
namespace {

// Every architecture, and blocks of 32 and of 256 values. (gpt-oss has MXFP4.)
std::vector<Golden> sample_goldens() {
  std::vector<Golden> sample;
  for (Golden& golden : all_goldens()) {
    const bool is_block_type = golden.name.starts_with("quant/");
    if (!is_block_type || golden.name == "quant/Q4_K_M" || golden.name == "quant/Q4_1") sample.push_back(golden);
  }
  return sample;
}

// Rows of logits, one after the other.
std::vector<float> logits_alone(backends::Backend& backend, const models::Model& model, std::span<const int32_t> tokens,
                                int64_t chunk, tensor::KvType kv_type) {
  std::vector<int32_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<float> logits;
  const auto result = cli::evaluate(backend, model, tokens, rows, {.chunk = chunk, .kv_type = kv_type},
                                    [&](tensor::MatView<const float> out) -> Result<void> {
                                      logits.insert(logits.end(), out.data, out.data + out.rows * out.cols);
                                      return {};
                                    });
  EXPECT_TRUE(result.has_value()) << result.error().message();
  return logits;
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

// The golden's tokens, again and again up to `n`.
std::vector<int32_t> tokens_of(const Golden& golden, size_t n) {
  const std::vector<int32_t> given = read_expected(golden).tokens;
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = given[i % given.size()];
  return ids;
}

// What keys and values of floats and of codes differ in is code of its own.
constexpr tensor::KvType kCacheTypes[] = {tensor::KvType::kF16, tensor::KvType::kQ8_0};

using Case = std::tuple<Golden, BackendCase, tensor::KvType>;
using CpuCase = std::tuple<Golden, tensor::KvType>;

class SameLogits : public ::testing::TestWithParam<Case> {
 protected:
  const Golden& golden() const { return std::get<Golden>(GetParam()); }
  const BackendCase& backend_case() const { return std::get<BackendCase>(GetParam()); }
  tensor::KvType kv_type() const { return std::get<tensor::KvType>(GetParam()); }
  models::Model model() const { return load_golden(golden()).value(); }
  std::vector<int32_t> tokens(size_t n) const { return tokens_of(golden(), n); }
  // Slow in a debug build.
  bool is_plain_cpp() const { return backend_case().is_reference() || backend_case().isa == "scalar"; }
};

// More than two pages and two windows.
constexpr size_t kTokens = 70;

// What only the cpu backend has: threads and instruction sets.
class SameLogitsOnCpu : public ::testing::TestWithParam<CpuCase> {};

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const auto& [golden, backend, kv_type] = info.param;
  return fmt::format("{}_on_{}_{}", golden.test_name(), backend.name, kv_type_name(kv_type));
}
std::string cpu_case_name(const ::testing::TestParamInfo<CpuCase>& info) {
  const auto& [golden, kv_type] = info.param;
  return fmt::format("{}_{}", golden.test_name(), kv_type_name(kv_type));
}

INSTANTIATE_TEST_SUITE_P(All, SameLogits,
                         ::testing::Combine(::testing::ValuesIn(sample_goldens()), ::testing::ValuesIn(all_backends()),
                                            ::testing::ValuesIn(kCacheTypes)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(All, SameLogitsOnCpu,
                         ::testing::Combine(::testing::ValuesIn(sample_goldens()), ::testing::ValuesIn(kCacheTypes)),
                         cpu_case_name);

TEST_P(SameLogits, InPassesOfAnySize) {
  const models::Model m = model();
  const auto backend = backend_case().make();
  const std::vector<int32_t> ids = tokens(is_plain_cpp() ? kTokens : 520);
  const std::vector<float> whole = logits_alone(*backend, m, ids, 520, kv_type());
  for (const int64_t chunk : {1, 7, 32, 64, 500}) {
    if (chunk < std::ssize(ids)) {
      expect_same_bits(logits_alone(*backend, m, ids, chunk, kv_type()), whole, "chunk " + std::to_string(chunk));
    }
  }
}

// A sequence that is run in steps of its own size, next to others.
struct Interleaved {
  std::vector<int32_t> tokens;
  int64_t step = 1;
  kv::SequenceId id = {};
  int64_t n_done = 0;
  std::vector<float> logits = {};
};

// One pass with the next rows of every sequence that has some left. False when none has.
bool run_pass(backends::Executable& executable, kv::Cache& cache, std::vector<Interleaved>& sequences,
              int64_t n_vocab) {
  std::vector<int32_t> tokens, owners, slots, outputs;
  std::vector<kv::SequenceId> ids;
  for (Interleaved& sequence : sequences) {
    const int64_t end = std::min<int64_t>(sequence.n_done + sequence.step, std::ssize(sequence.tokens));
    if (end == sequence.n_done) continue;
    EXPECT_TRUE(cache.grow(sequence.id, end).has_value());
    for (int64_t i = sequence.n_done; i < end; ++i) {
      tokens.push_back(sequence.tokens[static_cast<size_t>(i)]);
      owners.push_back(static_cast<int32_t>(ids.size()));
      slots.push_back(static_cast<int32_t>(i));
      outputs.push_back(static_cast<int32_t>(outputs.size()));
    }
    ids.push_back(sequence.id);
  }
  if (tokens.empty()) return false;
  std::vector<float> logits(tokens.size() * static_cast<size_t>(n_vocab));
  executable.run({.tokens = tokens,
                  .sequences = owners,
                  .slots = slots,
                  .positions = slots,
                  .outputs = outputs,
                  .kv = cache.view(ids),
                  .states = cache.states(ids)},
                 {.logits = {.data = logits.data(), .rows = std::ssize(outputs), .cols = n_vocab, .stride = n_vocab}});
  const float* row = logits.data();
  for (Interleaved& sequence : sequences) {
    const int64_t end = std::min<int64_t>(sequence.n_done + sequence.step, std::ssize(sequence.tokens));
    const int64_t n_floats = (end - sequence.n_done) * n_vocab;
    sequence.logits.insert(sequence.logits.end(), row, row + n_floats);
    row += n_floats;
    if (end > sequence.n_done) cache.set_length(sequence.id, end);
    sequence.n_done = end;
  }
  return true;
}

TEST_P(SameLogits, NextToSevenOthers) {
  const models::Model m = model();
  const auto backend = backend_case().make();
  const std::vector<int32_t> ids = tokens(kTokens);
  std::vector<Interleaved> sequences = {
      {.tokens = ids, .step = 1},
      {.tokens = {ids.rbegin(), ids.rbegin() + 40}, .step = 13},
      {.tokens = {ids.begin() + 9, ids.begin() + 39}, .step = 3},
  };
  for (int64_t i = 3; i < 8; ++i)
    sequences.push_back({.tokens = {ids.begin() + i, ids.begin() + 5 * i}, .step = i % 4 + 1});
  const auto executable = backend->compile(m.program, m.weights, {.max_rows = 32, .max_outputs = 32}).value();
  const auto cache = kv::Cache::create(*backend, m.program.kv_layers, m.program.state_layers,
                                       {.type = kv_type(), .max_tokens = 1024, .max_sequences = 8})
                         .value();
  for (Interleaved& sequence : sequences) sequence.id = cache->add_sequence().value();
  while (run_pass(*executable, *cache, sequences, m.info.n_vocab)) {
  }
  for (const Interleaved& sequence : sequences) {
    expect_same_bits(sequence.logits, logits_alone(*backend, m, sequence.tokens, 64, kv_type()),
                     "step " + std::to_string(sequence.step));
  }
}

TEST_P(SameLogitsOnCpu, WithAnyNumberOfThreads) {
  const auto& [golden, kv_type] = GetParam();
  const models::Model m = load_golden(golden).value();
  const std::vector<int32_t> ids = tokens_of(golden, kTokens);
  BackendCase backend = cpu_backends().back();
  for (const int64_t chunk : {64, 1}) {
    backend.n_threads = 1;
    const std::vector<float> one = logits_alone(*backend.make(), m, ids, chunk, kv_type);
    for (const int n_threads : {2, 3, 4}) {
      backend.n_threads = n_threads;
      expect_same_bits(logits_alone(*backend.make(), m, ids, chunk, kv_type), one,
                       std::to_string(n_threads) + " threads");
    }
  }
}

TEST_P(SameLogitsOnCpu, OnEveryInstructionSet) {
  const auto& [golden, kv_type] = GetParam();
  const models::Model m = load_golden(golden).value();
  const std::vector<int32_t> ids = tokens_of(golden, kTokens);
  const std::vector<BackendCase> backends = cpu_backends();
  const std::vector<float> scalar = logits_alone(*backends.front().make(), m, ids, 64, kv_type);
  for (size_t i = 1; i < backends.size(); ++i) {
    expect_same_bits(logits_alone(*backends[i].make(), m, ids, 64, kv_type), scalar, backends[i].name);
  }
}

}  // namespace
}  // namespace tempo9
