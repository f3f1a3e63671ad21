// Reading a model file into the page cache before it is needed, with a progress bar on a terminal.
#pragma once

#include <span>

#include "tensor/views.h"

namespace tempo9::cli {

// Touches every page of the weights, unless the machine's memory cannot hold them.
void prefault(std::span<const tensor::WeightView> weights);

}  // namespace tempo9::cli
