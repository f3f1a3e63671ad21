// Parts of layers as the CPU backend runs them: experts, and the convolution with the delta net, by the number of rows
// and threads. GB/s counts the weights and states that a pass has to read at least, GOP/s multiply-adds twice.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "graph/builder.h"
#include "random_weight.h"

namespace tempo9 {
namespace {

using graph::Builder;
using graph::Node;
using tensor::DType;

// A program, its weights, and one pass of `n_rows` rows: of one sequence, or one of each.
struct Layer {
  Builder builder;
  std::vector<RandomWeight> weights;

  graph::Weight weight(DType dtype, int64_t cols, int64_t rows = 1, int64_t depth = 1) {
    weights.emplace_back(dtype, cols, rows, depth);
    return builder.weight({.name = "w", .dtype = dtype, .cols = cols, .rows = rows, .depth = depth});
  }

  void run(benchmark::State& state, Node out, int64_t n_input, int64_t n_rows, int64_t n_sequences, int n_threads) && {
    const tensor::Program program =
        std::move(builder).finish(builder.select_outputs("out", builder.take_columns("some", out, 16, 0, 16)));
    std::vector<tensor::WeightView> views;
    for (const RandomWeight& w : weights) views.push_back(w.view);
    const auto backend = *backends::make_cpu_backend({.n_threads = n_threads, .isa = ""});
    const auto executable = *backend->compile(program, views, {.max_rows = n_rows, .max_outputs = 1});
    std::vector<int32_t> zeros(static_cast<size_t>(n_rows)), sequences;
    for (int64_t r = 0; r < n_rows; ++r) sequences.push_back(static_cast<int32_t>(r * n_sequences / n_rows));
    std::vector<float> hidden(static_cast<size_t>(n_rows * n_input));
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(i * 2654435761u % 2001) * 1e-3f - 1.0f;
    std::vector<Buffer> memory;
    std::vector<float*> states;
    for (const tensor::StateLayerSpec& spec : program.state_layers) {
      for (int64_t s = 0; s < n_sequences; ++s) {
        memory.push_back(*Buffer::reserve(static_cast<size_t>(spec.floats()) * sizeof(float)));
        states.push_back(reinterpret_cast<float*>(memory.back().data()));
      }
    }
    const tensor::Batch batch{.tokens = zeros,
                              .sequences = sequences,
                              .slots = zeros,
                              .positions = zeros,
                              .outputs = {},
                              .kv = {},
                              .states = {states, static_cast<int32_t>(n_sequences)},
                              .hidden = {hidden.data(), n_rows, n_input, n_input}};
    for (auto _ : state) executable->run(batch, {.logits = {}});
  }
};

void rate(benchmark::State& state, const char* name, double per_pass) {
  state.counters[name] =
      benchmark::Counter(static_cast<double>(state.iterations()) * per_pass * 1e-9, benchmark::Counter::kIsRate);
}

// As in a model of 30B with 3B active, with half of the experts.
constexpr int64_t kWidth = 2048, kInner = 768, kExperts = 64, kUsed = 8;

void run_experts(benchmark::State& state, DType dtype, int64_t n_rows, int n_threads) {
  Layer layer;
  const Node x = layer.builder.input("x", kWidth);
  const Node router = layer.builder.matmul("router", x, layer.weight(DType::kF32, kWidth, kExperts));
  const Node out = layer.builder.experts("out", x, router,
                                         {.gate = layer.weight(dtype, kWidth, kInner, kExperts),
                                          .up = layer.weight(dtype, kWidth, kInner, kExperts),
                                          .down = layer.weight(dtype, kInner, kWidth, kExperts),
                                          .n_used = kUsed});
  std::move(layer).run(state, out, kWidth, n_rows, 1, n_threads);
  const double expert = 3.0 * kWidth * kInner;
  const double n_read = kExperts * (1.0 - std::pow(1.0 - static_cast<double>(kUsed) / kExperts, n_rows));
  const double bytes = static_cast<double>(tensor::row_bytes(dtype, 256)) / 256.0;
  rate(state, "GB/s", n_read * expert * bytes + 4.0 * kWidth * kExperts);
  rate(state, "GOP/s", 2.0 * static_cast<double>(n_rows * kUsed) * expert);
}

// A dense layer that multiplies as much per row.
void run_dense(benchmark::State& state, DType dtype, int64_t n_rows, int n_threads) {
  Layer layer;
  Builder& b = layer.builder;
  constexpr int64_t kDense = kUsed * kInner;
  const Node x = b.input("x", kWidth);
  const Node gate = b.matmul("gate", x, layer.weight(dtype, kWidth, kDense));
  const Node up = b.matmul("up", x, layer.weight(dtype, kWidth, kDense));
  const Node gated = b.gated_activation("gated", gate, up, tensor::Activation::kSilu);
  const Node out = b.matmul("down", gated, layer.weight(dtype, kDense, kWidth));
  std::move(layer).run(state, out, kWidth, n_rows, 1, n_threads);
  const double weights = 3.0 * kWidth * kDense;
  rate(state, "GB/s", weights * static_cast<double>(tensor::row_bytes(dtype, 256)) / 256.0);
  rate(state, "GOP/s", 2.0 * static_cast<double>(n_rows) * weights);
}

// The state of a hybrid model of 4B.
constexpr int64_t kKeyHeads = 16, kValueHeads = 32, kHeadDim = 128, kTaps = 4;

void run_conv(benchmark::State& state, int64_t n_rows, int n_threads) {
  Layer layer;
  constexpr int64_t kCols = (2 * kKeyHeads + kValueHeads) * kHeadDim;
  const Node x = layer.builder.input("x", kCols);
  const int32_t states = layer.builder.add_state_layer({.conv_floats = (kTaps - 1) * kCols, .delta_floats = 1});
  const Node out = layer.builder.causal_conv("conv", x, layer.weight(DType::kF32, kTaps, kCols), states);
  std::move(layer).run(state, out, kCols, n_rows, 1, n_threads);
  rate(state, "GOP/s", 2.0 * static_cast<double>(n_rows * kTaps * kCols));
}

void run_delta_net(benchmark::State& state, int64_t n_rows, int64_t n_sequences, int n_threads) {
  Layer layer;
  Builder& b = layer.builder;
  constexpr int64_t kCols = (2 * kKeyHeads + kValueHeads) * kHeadDim;
  const Node x = b.input("x", kCols + 2 * kValueHeads);
  const int64_t n_input = kCols + 2 * kValueHeads;
  const Node u = b.take_columns("u", x, n_input, 0, kCols);
  const Node beta = b.take_columns("beta", x, n_input, kCols, kValueHeads);
  const Node alpha = b.take_columns("alpha", x, n_input, kCols + kValueHeads, kValueHeads);
  const int32_t states =
      b.add_state_layer({.conv_floats = (kTaps - 1) * kCols, .delta_floats = kValueHeads * kHeadDim * kHeadDim});
  const Node qkv = b.causal_conv("conv", u, layer.weight(DType::kF32, kTaps, kCols), states);
  const Node out = b.delta_net(
      "delta", qkv, beta, alpha, layer.weight(DType::kF32, kValueHeads), layer.weight(DType::kF32, kValueHeads),
      {.state_layer = states, .n_k_heads = kKeyHeads, .n_v_heads = kValueHeads, .k_dim = kHeadDim, .v_dim = kHeadDim});
  std::move(layer).run(state, out, n_input, n_rows, n_sequences, n_threads);
  const double floats = static_cast<double>(kValueHeads * kHeadDim * kHeadDim);
  rate(state, "GB/s", 8.0 * static_cast<double>(n_sequences) * floats);
  rate(state, "GOP/s", 7.0 * static_cast<double>(n_rows) * floats);
}

}  // namespace
}  // namespace tempo9

int main(int argc, char** argv) {
  using namespace tempo9;
  const auto add = [](const std::string& name, const auto& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond)->UseRealTime();
  };
  for (const int n_threads : {1, 2}) {
    const std::string threads = "/threads:" + std::to_string(n_threads);
    for (const int64_t rows : {1, 2, 4, 8, 32, 128, 512}) {
      const std::string suffix = "/rows:" + std::to_string(rows) + threads;
      for (const DType dtype : {DType::kQ4_K, DType::kQ8_0, DType::kMXFP4}) {
        const std::string type(tensor::dtype_name(dtype));
        add("experts/" + type + suffix, [=](benchmark::State& s) { run_experts(s, dtype, rows, n_threads); });
        add("dense/" + type + suffix, [=](benchmark::State& s) { run_dense(s, dtype, rows, n_threads); });
      }
      add("conv" + suffix, [=](benchmark::State& s) { run_conv(s, rows, n_threads); });
      add("conv" + suffix, [=](benchmark::State& s) { run_conv(s, rows, n_threads); });
      add("delta_net" + suffix, [=](benchmark::State& s) { run_delta_net(s, rows, 1, n_threads); });
    }
    add("delta_net/sequences:8" + threads, [=](benchmark::State& s) { run_delta_net(s, 8, 8, n_threads); });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
