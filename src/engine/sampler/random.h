// Random numbers by counter: the draw at a position depends on nothing but the seed and the position, so an answer does
// not change with the batch it ran in, with a pause or with speculation (spec performance section 2, C8).
#pragma once

#include <cstdint>

namespace tempo9::engine {

// The output function of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a
// bijection in which each input bit changes about half of the output bits.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Uniform in [0, 1), a multiple of 2^-53. The seed is mixed first, so that neighbouring seeds do not give shifted
// copies of one series.
constexpr double uniform_at(uint64_t seed, uint64_t position) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  const uint64_t bits = mix64(mix64(seed + kGolden) + (position + 1) * kGolden);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace tempo9::engine
