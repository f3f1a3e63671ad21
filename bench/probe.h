// What this machine's memory and int8 units give at best: the limits that kernels are measured against.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tempo9 {

// Reads all of it, several lines at a time on their way.
void read_bytes(const std::byte* data, int64_t bytes);

// Multiplies bytes to int32 sums in registers, on the best unit that the vector kernels use. Each repeat is this many
// operations.
inline constexpr int64_t kOperationsPerRepeat = 10 * 128;
void int8_dots(int64_t repeats);

}  // namespace tempo9
