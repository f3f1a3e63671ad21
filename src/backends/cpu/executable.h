// A program compiled for the CPU.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/cpu/plan.h"
#include "backends/cpu/tiled_weights.h"
#include "base/thread_pool.h"

namespace tempo9::backends::cpu {

// `pool` must outlive the result, and so must `tiles`, from which it takes copies of its weights as they are made; with
// null it uses the weights in place. Errors: kUnsupported by the name of a weight; kOutOfCapacity.
Result<std::unique_ptr<Executable>> make_executable(const tensor::Program& program,
                                                    std::span<const tensor::WeightView> weights,
                                                    const CompileOptions& options, const kernels::Isa& isa,
                                                    ThreadPool& pool, TiledWeights* tiles);

}  // namespace tempo9::backends::cpu
