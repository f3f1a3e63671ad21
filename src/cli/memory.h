// The memory budget that serving has when none is given.
#pragma once

#include <cstddef>

#include "gguf/file.h"

namespace tempo9::cli {

// For everything but the weights: half of what they leave of the machine's memory, since other programs run on it too.
// Never less than 512 MiB.
size_t default_memory_bytes(const gguf::File& file);

}  // namespace tempo9::cli
