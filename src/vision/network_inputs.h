// What a network compiled for one bucket's shape is given of an image (docs/tower-format.md, "Core ML packages"): all
// that depends on where patches stand is computed here, so that the network is products, norms and attention alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vision/preprocess.h"
#include "vision/tower_spec.h"

namespace tempo9::vision {

struct NamedArray {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;  // row-major
};

// What is added to the score of a key that a patch does not see: the exponential of it is 0, and it fits an f16.
inline constexpr float kHidden = -10000.0f;

// "pixels", and of "positions", "cosines", "sines", "mask" and "windows" those that the tower has use for.
std::vector<NamedArray> network_inputs(const TowerSpec& spec, const Patches& patches);

}  // namespace tempo9::vision
