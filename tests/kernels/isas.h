// The instruction sets that this machine runs, and random inputs with the awkward values in them.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/attention.h"
#include "kernels/kernels.h"

namespace tempo9::kernels {

inline std::vector<const Isa*> isas_here() {
  std::vector<const Isa*> isas;
  for (const Isa& isa : all_isas()) {
    if (isa.runs_here()) isas.push_back(&isa);
  }
  return isas;
}

inline std::vector<float> random_floats(std::mt19937& rng, size_t n, float scale = 1.0f) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(rng);
  return values;
}

// Zeros of both signs, denormals, huge and tiny values among ordinary ones.
inline std::vector<float> awkward_floats(std::mt19937& rng, size_t n) {
  constexpr float kAwkward[] = {
      0.0f,   -0.0f, std::numeric_limits<float>::denorm_min(), -1e-40f, 1e-30f, 3e18f, -2e18f, 1e4f, -1e4f, 88.7f,
      -104.f, -87.5f};
  std::vector<float> values = random_floats(rng, n, 3.0f);
  for (float& value : values) {
    if (rng() % 4 == 0) value = kAwkward[rng() % std::size(kAwkward)];
  }
  return values;
}

// Equality of bits, so that 0 and -0 differ and a NaN equals itself.
inline std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

}  // namespace tempo9::kernels
