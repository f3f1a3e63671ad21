// Rotary position embedding: frequencies with their scaling, worked out in double (spec models 1.5).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"
#include "models/hyperparameters.h"

namespace tempo9::models {

struct RopeScaling {
  enum class Kind : uint8_t { kLinear, kYarn };
  Kind kind = Kind::kLinear;
  double factor = 1.0;
  double magnitude = 1.0;         // of cos and sin
  double original_context = 0.0;  // tokens the model was first trained for
  // Yarn only.
  double ext_factor = 1.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool whole_pairs = true;  // the range of pairs that yarn blends is rounded outwards; gpt-oss does not
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
  // Position plane of each pair; empty: plane 0 for all.
  std::vector<uint8_t> axes = {};
};

// The position plane (0 time, 1 height, 2 width) of each pair, from {a}.rope.dimension_sections, which counts the pairs
// of each plane: in runs one after the other, or taking turns while a plane has pairs left.
enum class RopeSections : uint8_t { kContiguous, kInterleaved };
Result<std::vector<uint8_t>> read_rope_axes(const Keys& keys, int64_t n_rot, RopeSections order);

// Base and scaling from the keys `{a}.rope.*`, sizes of the decoder; the rest is the architecture's.
Result<RopeParams> read_rope_params(const Keys& keys, const DecoderParams& decoder, tensor::RopePairs pairs);

// Errors: kInvalidInput when the keys and divisors together give a frequency that is not finite.
Result<graph::Builder::RopeSpec> make_rope(const RopeParams& params);

}  // namespace tempo9::models
