// A projector file (GGUF, general.architecture = clip), read and checked: its family, and a spec bound to its tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "vision/tower_spec.h"

namespace tempo9::vision {

struct Projector {
  std::shared_ptr<const gguf::File> file;
  TowerSpec spec;  // views into `file` and `owned`
  // Weights that had to be put together, by the matrices that view them.
  std::vector<std::unique_ptr<std::vector<float>>> owned;

  // Errors name the file and what is wrong: kInvalidInput, kUnsupported (a projector of another kind, by name).
  static Result<Projector> open(const std::string& path);
  static Result<Projector> read(std::unique_ptr<gguf::File> file);
};

}  // namespace tempo9::vision
