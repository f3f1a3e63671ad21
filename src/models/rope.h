// Rotary position embedding: frequencies with their scaling, worked out in double (spec models 1.5).
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "graph/builder.h"
#include "models/hyperparameters.h"

namespace tempo9::models {

struct RopeScaling {
  enum class Kind : uint8_t { kLinear, kYarn };
  Kind kind = Kind::kLinear;
  double factor = 1.0;
  double magnitude = 1.0;  // of cos and sin
  // Yarn only.
  double original_context = 0.0;
  double ext_factor = 1.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
};

// From the keys `{a}.rope.scaling.*`; no scaling when they are absent. Errors: kUnsupported for an unknown type.
Result<RopeScaling> read_rope_scaling(const Keys& keys, int64_t context_length);

struct RopeParams {
  double base = 10000.0;
  int64_t n_rot = 0;
  int64_t head_dim = 0;
  tensor::RopePairs pairs = tensor::RopePairs::kHalves;
  RopeScaling scaling = {};
  // Divisors of the frequencies, n_rot / 2 of them, or none (tensor rope_freqs.weight).
  std::span<const float> divisors = {};
};

// Errors: kInvalidInput when the keys and divisors together give a frequency that is not finite.
Result<graph::Builder::RopeSpec> make_rope(const RopeParams& params);

}  // namespace tempo9::models
