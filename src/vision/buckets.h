// Fixed shapes for images of any size: the smallest bucket that holds an image's patches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "vision/tower_folder.h"
#include "vision/tower_spec.h"

namespace tempo9::vision {

// Those of a tower, ascending: b1024 and b4096 (patches), or the one that all its images take. kUnsupported when its
// images are larger than the largest.
Result<std::vector<Bucket>> make_buckets(const TowerSpec& spec);
// Null when none holds so many.
const Bucket* find_bucket(std::span<const Bucket> buckets, int64_t n_patches);

// Keeps images within the largest bucket: larger ones are scaled down in proportion. Small ones are scaled up to a
// quarter of that at most, since whole tokens may need more than was asked for.
void limit_to_buckets(std::span<const Bucket> buckets, TowerSpec& spec);
// Those that images between the spec's limits can fall into.
std::vector<Bucket> reachable_buckets(std::span<const Bucket> buckets, const TowerSpec& spec);

}  // namespace tempo9::vision
