// What a tower must pass before it is one (product section 7): it runs where it says, and in each bucket it gives the
// rows that plain floats give. The third gate, a question about an image, needs a language model: cli/tower.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "vision/encoder.h"
#include "vision/executor.h"
#include "vision/tower_folder.h"

namespace tempo9::vision {

inline constexpr double kMinCosine = 0.98;

// kUnsupported when linear layers fell back to code that is not the executor's own.
Result<void> check_residency(const Residency& residency);

struct BucketGate {
  std::string bucket;
  int64_t n_images = 0;
  int64_t n_rows = 0;
  double min_cosine = 1.0;  // over the rows, each of a row's parts (deepstack) by itself
};

// Encodes made-up images of each bucket, some with padding, by both. `exact` pads, `tower` does what it always does.
// Errors: what encoding gives, and kInvalidInput with the figure when a bucket is below kMinCosine.
Result<std::vector<BucketGate>> check_buckets(ImageEncoder& tower, ImageEncoder& exact, const TowerSpec& spec,
                                              std::span<const Bucket> buckets);

// The least cosine of two encodings' rows, in parts of `part_cols`. REQUIRES: equal sizes.
double least_cosine(std::span<const float> a, std::span<const float> b, int64_t part_cols);

// Colours and shapes of all sizes on a gradient, and some noise; the same for the same size and seed.
Image make_sample_image(int32_t width, int32_t height, uint32_t seed);

}  // namespace tempo9::vision
