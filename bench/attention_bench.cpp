// Attention kernels of one thread over a context, by instruction set, type of keys and values, heads of a KV head's
// group, head size and rows: avx512/q8_0/group:2/dim:128/rows:32. The rows are the last of 4096 tokens. GFLOP/s counts
// two operations for each product of a query or a weight, GB/s the pages that are read.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/attention.h"
#include "kernels/kernels.h"
#include "tensor/kv_type_names.h"

namespace tempo9::kernels {
namespace {

constexpr int64_t kTokens = 4096;
constexpr int64_t kKvHeads = 4;

std::vector<float> random_floats(int64_t n) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(rng);
  return values;
}

AttentionState state_in(std::vector<float>& memory, int64_t n, int64_t dim) {
  memory.resize(static_cast<size_t>(n * (dim + 2)));
  return {.max = memory.data(), .sum = memory.data() + n, .values = memory.data() + 2 * n};
}

void attend(benchmark::State& state, const Isa& isa, tensor::KvType type, AttentionShape shape, int64_t n_rows) {
  const AttentionKernels& kernels = isa.attention(type);
  const size_t k_bytes = k_page_bytes(shape, type), v_bytes = v_page_bytes(shape, type);
  constexpr int64_t kPages = kTokens / tensor::kPageTokens;
  const Buffer k = *Buffer::reserve(k_bytes * kPages), v = *Buffer::reserve(v_bytes * kPages);
  const std::vector<float> token = random_floats(2 * shape.n_kv_heads * shape.k_head_dim);
  for (int64_t i = 0; i < kTokens; ++i) {
    const float* from = token.data() + i * 7 % (shape.n_kv_heads * shape.k_head_dim);
    const auto page = static_cast<size_t>(i / tensor::kPageTokens);
    kernels.write(shape, from, from, const_cast<std::byte*>(k.data()) + page * k_bytes,
                  const_cast<std::byte*>(v.data()) + page * v_bytes, i % tensor::kPageTokens);
  }
  std::vector<int32_t> pages(kPages), slots(static_cast<size_t>(n_rows));
  std::iota(pages.begin(), pages.end(), 0);
  std::iota(slots.begin(), slots.end(), static_cast<int32_t>(kTokens - n_rows));
  const std::vector<float> q = random_floats(n_rows * shape.n_heads * shape.k_head_dim);
  const int64_t n_vectors = n_rows * shape.n_heads / shape.n_kv_heads;
  const Buffer scratch = *Buffer::reserve(attention_scratch_bytes(shape, n_vectors));
  const AttentionRows rows{.q = q.data(),
                           .q_stride = shape.n_heads * shape.k_head_dim,
                           .slots = slots.data(),
                           .n_rows = n_rows,
                           .pages = pages.data(),
                           .k = k.data(),
                           .v = v.data(),
                           .k_page_bytes = k_bytes,
                           .v_page_bytes = v_bytes,
                           .scratch = const_cast<std::byte*>(scratch.data())};
  std::vector<float> part_memory, total_memory;
  const AttentionState part = state_in(part_memory, n_vectors, shape.v_head_dim);
  const AttentionState total = state_in(total_memory, n_vectors, shape.v_head_dim);
  for (auto _ : state) {
    for (int64_t head = 0; head < shape.n_kv_heads; ++head) {
      kernels.attend_span(shape, rows, head, 0, total);
      for (int64_t span = 1; span < kTokens / kSpanTokens; ++span) {
        kernels.attend_span(shape, rows, head, span, part);
        kernels.merge(shape, n_vectors, part, total);
      }
    }
    benchmark::ClobberMemory();
  }
  const double operations = 2.0 * static_cast<double>(n_rows * shape.n_heads * kTokens) *
                            static_cast<double>(shape.k_head_dim + shape.v_head_dim);
  const auto rate = [](double x) { return benchmark::Counter(x, benchmark::Counter::kIsIterationInvariantRate); };
  state.counters["GFLOP/s"] = rate(operations * 1e-9);
  state.counters["GB/s"] = rate(static_cast<double>((k_bytes + v_bytes) * kPages) * 1e-9);
}

void add_all() {
  for (const Isa& isa : all_isas()) {
    if (!isa.runs_here()) continue;
    for (const tensor::KvType type : tensor::kKvTypes) {
      for (const int64_t dim : {64, 128, 256}) {
        for (const int64_t group : {2, 4}) {
          for (const int64_t n_rows : {1, 8, 32}) {
            const AttentionShape shape{.n_heads = group * kKvHeads,
                                       .n_kv_heads = kKvHeads,
                                       .k_head_dim = dim,
                                       .v_head_dim = dim,
                                       .scale = 0.1f};
            const std::string name =
                fmt::format("{}/{}/group:{}/dim:{}/rows:{}", isa.name, tensor::kv_type_name(type), group, dim, n_rows);
            benchmark::RegisterBenchmark(name.c_str(), [=, &isa](benchmark::State& state) {
              attend(state, isa, type, shape, n_rows);
            })->Unit(benchmark::kMicrosecond);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tempo9::kernels

int main(int argc, char** argv) {
  tempo9::kernels::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
