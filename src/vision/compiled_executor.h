// A tower that runs as networks which somebody else compiled, one for each bucket's shape.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "vision/executor.h"
#include "vision/network_inputs.h"

namespace tempo9::vision {

class Network {
 public:
  virtual ~Network() = default;
  // Rows of TowerSpec::embedding_cols(), one per token of the bucket. From one thread at a time.
  virtual Result<std::vector<float>> run(std::span<const NamedArray> inputs) = 0;
};

struct BucketNetwork {
  int64_t n_patches = 0;
  std::unique_ptr<Network> network;
};

// A network that runs is waited for: a stop is noticed before it and after it. REQUIRES: a network for each bucket that
// images are padded to.
std::unique_ptr<Executor> make_compiled_executor(Projector projector, std::vector<BucketNetwork> networks,
                                                 Residency residency);

}  // namespace tempo9::vision
