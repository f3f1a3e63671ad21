// The backend for real work: threads and partitioning over kernels/, one instruction set chosen at start.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/backend.h"

namespace tempo9::backends {

// Whether weights are copied into the order that the kernels read fastest (tiled_weights.h). Results are the same.
enum class Tiling : uint8_t {
  kBehind,  // while the backend runs already
  kBefore,  // compile() returns when it is done: for benchmarks
  kNever,
};

struct CpuOptions {
  int n_threads = 0;  // 0: one per physical core that this process may use
  std::string isa;    // empty: the best this machine has, or TEMPO9_ISA; else a name from kernels::all_isas()
  Tiling tiling = Tiling::kBehind;
};

// What the backend says of its cache, the same on every machine.
std::span<const tensor::KvType> cpu_kv_types();
KvPageBytes cpu_kv_page_bytes(const tensor::KvLayerSpec& layer, tensor::KvType type);

// Errors: kInvalidInput when the named ISA does not exist (lists those that do) or this machine lacks it.
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options);

}  // namespace tempo9::backends
