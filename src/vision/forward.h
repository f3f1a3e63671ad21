// A tower's forward pass: the steps of spec models 12.3 to 12.7, as a TowerSpec has them, in somebody's arithmetic.
#pragma once

#include <vector>

#include "base/result.h"
#include "vision/arithmetic.h"
#include "vision/preprocess.h"
#include "vision/tower_spec.h"

namespace tempo9::vision {

// Rows of TowerSpec::embedding_cols(): one per token of `patches`, in their order, padding included. kCancelled once
// the arithmetic is stopped.
Result<std::vector<float>> forward(const TowerSpec& spec, const Patches& patches, Arithmetic& arithmetic);

}  // namespace tempo9::vision
