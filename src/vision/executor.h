// Runs a tower's pass somewhere: the CPU, another processor, or plainly (for comparison).
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "vision/preprocess.h"
#include "vision/projector.h"

namespace tempo9::vision {

// Where a tower's products are really computed, as the executor itself counts them.
struct Residency {
  std::string executor;    // "cpu"
  std::string detail;      // instruction set, threads
  int64_t n_native = 0;    // linear layers with a kernel of their own
  int64_t n_fallback = 0;  // others
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const TowerSpec& spec() const = 0;
  virtual Residency residency() const = 0;
  // One that has compiled the buckets' shapes is given images padded to them; others take any number of rows.
  virtual bool has_fixed_shapes() const = 0;
  // Rows of TowerSpec::embedding_cols(), one per token, in the order of the patches. From one thread at a time.
  // kCancelled soon after `stop` is requested.
  virtual Result<std::vector<float>> run(const Patches& patches, std::stop_token stop) = 0;
};

struct CpuExecutorOptions {
  int n_threads = 0;     // 0: half of the cores, at least one
  std::string isa = {};  // empty: the best here
  // Floats throughout, keys and values included, quantised weights decoded: what others are compared with.
  bool is_exact = false;
};

// Errors: kInvalidInput and kUnsupported about the instruction set; kOutOfCapacity.
Result<std::unique_ptr<Executor>> make_cpu_executor(Projector projector, const CpuExecutorOptions& options = {});

// Plain loops (arithmetic.h), for small towers.
std::unique_ptr<Executor> make_reference_executor(Projector projector);

}  // namespace tempo9::vision
