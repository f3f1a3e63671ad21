// What fits the machine's memory, and the budget that serving has when none is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gguf/file.h"
#include "tensor/views.h"

namespace tempo9::cli {

// For everything but the weights: half of what they leave of the machine's memory, since other programs run on it too.
// Never less than 512 MiB.
size_t default_memory_bytes(const gguf::File& file);

uint64_t weight_bytes(std::span<const tensor::WeightView> weights);
// Whether the weights can stay in memory. Where they cannot, every token reads a part of them from the disk again.
bool fit_memory(std::span<const tensor::WeightView> weights);
// What to tell the user of weights that do not.
std::string describe_misfit(std::span<const tensor::WeightView> weights);

// "1.5 GiB"
std::string human_bytes(double bytes);
// "8.03B", "135M"
std::string human_count(int64_t n);

}  // namespace tempo9::cli
