#include <fmt/format.h>

#include <algorithm>

#include "base/buffer.h"
#include "base/mapped_file.h"
#include "kernels/tiles.h"
#include "quant/quant.h"
#include "vision/cpu_arithmetic.h"
#include "vision/executor.h"
#include "vision/forward.h"
#include "vision/low_priority_threads.h"

namespace tempo9::vision {
namespace {

Result<const kernels::Isa*> choose_isa(const std::string& name) {
  if (name.empty()) return &kernels::best_isa();
  const kernels::Isa* isa = kernels::find_isa(name);
  if (isa == nullptr) return fail(ErrorCode::kInvalidInput, fmt::format("no instruction set \"{}\"", name));
  if (!isa->runs_here()) return fail(ErrorCode::kUnsupported, fmt::format("this machine has no {}", name));
  return isa;
}

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(Projector projector, const kernels::Isa& isa, int n_threads, bool is_exact)
      : projector_(std::move(projector)), isa_(isa), is_exact_(is_exact), threads_(n_threads) {}

  // Weights as the kernels read them best.
  Result<void> prepare() {
    Result<void> result;
    for_each_linear(projector_.spec, [&](Linear& linear) {
      if (result) result = is_exact_ ? widen(linear) : tile(linear);
    });
    return result;
  }

  const TowerSpec& spec() const override { return projector_.spec; }
  bool has_fixed_shapes() const override { return false; }

  Residency residency() const override {
    Residency residency{.executor = "cpu",
                        .detail = fmt::format("{}, {} thread{} of its own", isa_.description, threads_.n_threads(),
                                              threads_.n_threads() == 1 ? "" : "s"),
                        .n_native = 0,
                        .n_fallback = 0};
    for_each_linear(projector_.spec, [&](const Linear& linear) {
      ++(isa_.matmul->is_native(linear.weight.dtype) ? residency.n_native : residency.n_fallback);
    });
    return residency;
  }

  Result<std::vector<float>> run(const Patches& patches, std::stop_token stop) override {
    Result<std::vector<float>> result;
    const tensor::KvType type = is_exact_ ? tensor::KvType::kF32 : tensor::KvType::kF16;
    threads_.run([&](ThreadPool& pool) {
      CpuArithmetic arithmetic(isa_, type, pool, scratch_, stop);
      result = forward(projector_.spec, patches, arithmetic);
    });
    return result;
  }

 private:
  Result<void> tile(Linear& linear) {
    tensor::WeightView& weight = linear.weight;
    if (!kernels::can_tile(*isa_.matmul, weight)) return {};
    T9_TRY(memory, Buffer::reserve(weight.size_bytes()));
    isa_.matmul->write_tiles(weight, {0, weight.rows}, memory.data());
    if (weight.is_mapped) drop_mapped_pages({weight.data, weight.size_bytes()});
    weight.data = memory.data();
    weight.layout = tensor::Layout::kTiled;
    weight.is_mapped = false;
    memory_.push_back(std::move(memory));
    return {};
  }

  Result<void> widen(Linear& linear) {
    tensor::WeightView& weight = linear.weight;
    if (kernels::act_format(weight.dtype) == kernels::ActFormat::kF32) return {};
    T9_TRY(memory, Buffer::reserve(static_cast<size_t>(weight.elements()) * sizeof(float)));
    quant::find_type(weight.dtype)->decode(weight.data, reinterpret_cast<float*>(memory.data()), weight.elements());
    weight.dtype = tensor::DType::kF32;
    weight.data = memory.data();
    weight.row_bytes = static_cast<size_t>(weight.cols) * sizeof(float);
    weight.is_mapped = false;
    memory_.push_back(std::move(memory));
    return {};
  }

  Projector projector_;
  const kernels::Isa& isa_;
  const bool is_exact_;
  std::vector<Buffer> memory_;  // of weights
  CpuScratch scratch_;
  LowPriorityThreads threads_;
};

class ReferenceExecutor final : public Executor {
 public:
  explicit ReferenceExecutor(Projector projector) : projector_(std::move(projector)) {}
  const TowerSpec& spec() const override { return projector_.spec; }
  bool has_fixed_shapes() const override { return false; }
  Residency residency() const override { return {.executor = "reference", .detail = "plain loops"}; }
  Result<std::vector<float>> run(const Patches& patches, std::stop_token) override {
    const auto arithmetic = make_reference_arithmetic();
    return forward(projector_.spec, patches, *arithmetic);
  }

 private:
  Projector projector_;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_cpu_executor(Projector projector, const CpuExecutorOptions& options) {
  T9_TRY(isa, choose_isa(options.isa));
  const int n_threads = options.n_threads > 0 ? options.n_threads : std::max(1, n_usable_cores() / 2);
  auto executor = std::make_unique<CpuExecutor>(std::move(projector), *isa, n_threads, options.is_exact);
  T9_TRY_VOID(executor->prepare());
  return std::unique_ptr<Executor>(std::move(executor));
}

std::unique_ptr<Executor> make_reference_executor(Projector projector) {
  return std::make_unique<ReferenceExecutor>(std::move(projector));
}

}  // namespace tempo9::vision
