// Matrix products of one core: GB/s of weights read and GOP/s (a multiply-add is two operations), per ISA, type, number
// of activation rows and shape. The weights of a run are larger than the caches (96 MiB) unless activation rows are
// many.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/kernels.h"
#include "random_weight.h"

namespace tempo9::kernels {
namespace {

using tensor::DType;

constexpr int64_t kMemoryBytes = 96 << 20;
constexpr int64_t kCachedBytes = 256 << 10;

struct Shape {
  int64_t cols;
  int64_t rows;
};

void report(benchmark::State& state, const WeightView& weight, int64_t m) {
  const auto passes = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(passes * static_cast<double>(weight.size_bytes()) * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GOP/s"] = benchmark::Counter(
      passes * 2e-9 * static_cast<double>(m) * static_cast<double>(weight.elements()), benchmark::Counter::kIsRate);
}

void run_product(benchmark::State& state, const Isa& isa, DType dtype, int64_t m, Shape shape) {
  const RandomWeight weight(dtype, shape.cols, shape.rows);
  std::vector<float> x(static_cast<size_t>(m * shape.cols));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 2001) * 0.001f - 1.0f;
  std::vector<float> out(static_cast<size_t>(m * shape.rows));
  Buffer scratch = *Buffer::reserve(isa.matmul->scratch_bytes(weight.view) + 64);
  const MatView<float> out_view{out.data(), m, shape.rows, shape.rows};

  QuantizedRows q;
  q.rows = m;
  q.cols = shape.cols;
  q.format = act_format(dtype);
  std::vector<int8_t> codes(x.size());
  std::vector<float> scales(x.size() / 32);
  std::vector<int16_t> sums(x.size() / 16);
  q.q = codes.data();
  q.d = scales.data();
  q.sums = sums.data();
  const MatView<const float> x_view{x.data(), m, shape.cols, shape.cols};
  const bool is_float = q.format == ActFormat::kF32;
  if (!is_float) isa.matmul->quantize(x_view, {0, m}, q);

  // As a backend does: chunks of about 128 KiB of weights.
  const int64_t chunk = std::max<int64_t>(32, (128 << 10) / static_cast<int64_t>(weight.view.row_bytes) / 32 * 32);
  for (auto _ : state) {
    for (int64_t r = 0; r < shape.rows; r += chunk) {
      const IndexRange rows{r, std::min(r + chunk, shape.rows)};
      if (is_float) {
        isa.matmul->floating(dtype)(weight.view, rows, {x.data(), m, shape.cols, shape.cols}, out_view, scratch.data());
      } else {
        isa.matmul->quant(dtype)(weight.view, rows, q, out_view, scratch.data());
      }
    }
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, weight.view, m);
}

void run_quantize(benchmark::State& state, const Isa& isa, ActFormat format, int64_t cols) {
  const int64_t m = 64;
  std::vector<float> x(static_cast<size_t>(m * cols));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 2001) * 0.001f - 1.0f;
  std::vector<int8_t> codes(x.size());
  std::vector<float> scales(x.size() / 32);
  std::vector<int16_t> sums(x.size() / 16);
  const QuantizedRows q{codes.data(), scales.data(), sums.data(), m, cols, format};
  for (auto _ : state) {
    isa.matmul->quantize({x.data(), m, cols, cols}, {0, m}, q);
    benchmark::DoNotOptimize(codes.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * m * cols);
}

void add_products(const Isa& isa) {
  const std::string prefix = std::string(isa.name) + "/";
  for (const tensor::DTypeInfo& info : tensor::all_dtypes()) {
    if (info.state != tensor::DTypeState::kUsable) continue;
    for (const int64_t cols : {576, 1536, 4096}) {
      if (cols % info.block_elements != 0) continue;
      const auto row_bytes = static_cast<int64_t>(tensor::row_bytes(info.dtype, cols));
      const auto add = [&](const std::string& name, int64_t m, int64_t weight_bytes) {
        const int64_t rows = weight_bytes / row_bytes / 32 * 32;
        benchmark::RegisterBenchmark(
            (prefix + std::string(info.name) + "/cols:" + std::to_string(cols) + name + "/m:" + std::to_string(m))
                .c_str(),
            run_product, isa, info.dtype, m, Shape{cols, rows})
            ->Unit(benchmark::kMicrosecond);
      };
      for (const int64_t m : {1, 2, 3, 4, 5, 6, 8}) {
        add("", m, kMemoryBytes);
        add("/cached", m, kCachedBytes);
      }
      for (const int64_t m : {12, 16, 32, 64, 128, 512}) add("", m, 1536 * row_bytes);
    }
  }
  for (const ActFormat format : {ActFormat::kA32, ActFormat::kA256}) {
    benchmark::RegisterBenchmark((prefix + (format == ActFormat::kA32 ? "quantize_A32" : "quantize_A256")).c_str(),
                                 run_quantize, isa, format, 1536)
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace
}  // namespace tempo9::kernels

int main(int argc, char** argv) {
  for (const tempo9::kernels::Isa& isa : tempo9::kernels::all_isas()) {
    if (isa.runs_here()) tempo9::kernels::add_products(isa);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
