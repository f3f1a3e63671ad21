// A vision tower: the folder that `tempo9 tower export` wrote (docs/tower-format.md), opened as an encoder of images.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "vision/encoder.h"

namespace tempo9::vision {

struct TowerOptions {
  int n_threads = 0;     // of the tower's own; 0: half of the cores, so that the language model keeps the others
  std::string isa = {};  // instruction set of the kernels; empty: the best here
  // Instead of what the tower was exported with: images of fewer pixels are scaled up to this many.
  std::optional<int64_t> min_pixels = {};
};

// On a Mac a folder whose Core ML packages passed `tempo9 tower check` runs on the Neural Engine, and on the CPU when
// an instruction set is asked for; elsewhere packages are left out.
class Tower {
 public:
  // `folder` is the one that holds tower_meta.json. Versions, sizes and digests are checked, which reads all weights.
  // Errors: kNotFound (says what was missing, also when the path is the parent of a tower or a GGUF projector),
  // kInvalidInput (damaged), kUnsupported (a format or projector of another version).
  static Result<std::unique_ptr<ImageEncoder>> open(const std::string& folder, const TowerOptions& options = {});
};

}  // namespace tempo9::vision
