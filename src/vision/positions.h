// Where patches stand, as numbers that a tower's pass adds and turns by (spec models 12.3, 12.5).
#pragma once

#include <cstdint>
#include <vector>

#include "vision/preprocess.h"
#include "vision/tower_spec.h"

namespace tempo9::vision {

// x += the learned position of row r, TowerSpec::width values. REQUIRES: the tower has a table of positions.
void add_position(const TowerSpec& spec, const Patches& patches, int64_t r, float* x);

// Cosines and sines of each row's angles, TowerSpec::rotary.size() a row.
struct Rotations {
  std::vector<float> cosines, sines;
};
Rotations make_rotations(const TowerSpec& spec, const Patches& patches);

}  // namespace tempo9::vision
