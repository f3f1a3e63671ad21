#include "backends/cpu/cpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>

#include "backends/cpu/executable.h"
#include "backends/cpu/tiled_weights.h"

namespace tempo9::backends {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const kernels::Isa& isa, int n_threads, Tiling tiling)
      : isa_(isa), pool_(n_threads), tiling_(tiling), tiles_(*isa.matmul) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("cpu {} ({}), {} thread{}", isa_.name, isa_.description, pool_.n_workers(),
                       pool_.n_workers() == 1 ? "" : "s");
  }

  Result<Buffer> reserve(size_t bytes) override { return Buffer::reserve(bytes); }

  std::span<const tensor::KvType> kv_types() const override { return cpu_kv_types(); }
  KvPageBytes kv_page_bytes(const tensor::KvLayerSpec& layer, tensor::KvType type) const override {
    return cpu_kv_page_bytes(layer, type);
  }

  Result<std::unique_ptr<Executable>> compile(const tensor::Program& program,
                                              std::span<const tensor::WeightView> weights,
                                              const CompileOptions& options) override {
    T9_TRY(executable,
           cpu::make_executable(program, weights, options, isa_, pool_, tiling_ == Tiling::kNever ? nullptr : &tiles_));
    if (tiling_ == Tiling::kBefore) tiles_.wait();
    return executable;
  }

 private:
  const kernels::Isa& isa_;
  ThreadPool pool_;
  const Tiling tiling_;
  cpu::TiledWeights tiles_;
};

Result<const kernels::Isa*> choose_isa(const std::string& requested) {
  const char* from_environment = std::getenv("TEMPO9_ISA");
  const std::string name = requested.empty() && from_environment != nullptr ? from_environment : requested;
  if (name.empty()) return &kernels::best_isa();
  std::vector<std::string_view> here;
  for (const kernels::Isa& isa : kernels::all_isas()) {
    if (isa.runs_here()) here.push_back(isa.name);
  }
  const kernels::Isa* isa = kernels::find_isa(name);
  if (isa != nullptr && isa->runs_here()) return isa;
  return fail(ErrorCode::kInvalidInput,
              fmt::format("{} '{}'; this machine runs: {}",
                          isa == nullptr ? "no such instruction set:" : "this machine lacks the features of", name,
                          fmt::join(here, ", ")));
}

}  // namespace

std::span<const tensor::KvType> cpu_kv_types() {
  static constexpr std::array kTypes = {tensor::KvType::kF16, tensor::KvType::kQ8_0, tensor::KvType::kF32};
  return kTypes;
}

KvPageBytes cpu_kv_page_bytes(const tensor::KvLayerSpec& layer, tensor::KvType type) {
  const kernels::AttentionShape shape{.n_heads = layer.n_kv_heads,
                                      .n_kv_heads = layer.n_kv_heads,
                                      .k_head_dim = layer.k_head_dim,
                                      .v_head_dim = layer.v_head_dim};
  return {.k = kernels::k_page_bytes(shape, type), .v = kernels::v_page_bytes(shape, type)};
}

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options) {
  T9_TRY(isa, choose_isa(options.isa));
  if (options.n_threads < 0) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{} threads", options.n_threads));
  }
  return std::make_unique<CpuBackend>(*isa, options.n_threads > 0 ? options.n_threads : n_usable_cores(),
                                      options.tiling);
}

}  // namespace tempo9::backends
