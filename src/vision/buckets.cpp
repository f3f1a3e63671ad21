#include "vision/buckets.h"

#include <fmt/format.h>

#include <algorithm>

namespace tempo9::vision {
namespace {

constexpr int64_t kBucketPatches[] = {1024, 4096};

Bucket make_bucket(const TowerSpec& spec, int64_t n_patches) {
  return {.name = fmt::format("b{}", n_patches),
          .n_patches = n_patches,
          .n_tokens = n_patches / (spec.merge * spec.merge),
          .n_pixels = n_patches * spec.patch * spec.patch};
}

}  // namespace

Result<std::vector<Bucket>> make_buckets(const TowerSpec& spec) {
  std::vector<Bucket> buckets;
  for (const int64_t n : kBucketPatches) {
    // Whole tokens only: 4096 patches are no whole pools of 3 x 3.
    const int64_t per_token = spec.merge * spec.merge;
    Bucket bucket = make_bucket(spec, n);
    bucket.n_patches = n / per_token * per_token;
    buckets.push_back(std::move(bucket));
  }
  if (spec.resize == ResizeRule::kSmart) return buckets;
  const int64_t needed =
      spec.resize == ResizeRule::kStretch ? spec.side * spec.side : spec.max_tokens * spec.merge * spec.merge;
  const Bucket* bucket = find_bucket(buckets, needed);
  if (bucket == nullptr) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("images of {} patches; towers take at most {}", needed, buckets.back().n_patches));
  }
  return std::vector<Bucket>{*bucket};
}

const Bucket* find_bucket(std::span<const Bucket> buckets, int64_t n_patches) {
  const auto bucket = std::ranges::find_if(buckets, [&](const Bucket& b) { return b.n_patches >= n_patches; });
  return bucket == buckets.end() ? nullptr : &*bucket;
}

void limit_to_buckets(std::span<const Bucket> buckets, TowerSpec& spec) {
  spec.max_pixels = std::min(spec.max_pixels, buckets.back().n_patches * spec.patch * spec.patch);
  spec.min_pixels = std::min(spec.min_pixels, spec.max_pixels / 4);
}

std::vector<Bucket> reachable_buckets(std::span<const Bucket> buckets, const TowerSpec& spec) {
  std::vector<Bucket> reachable;
  for (const Bucket& bucket : buckets) {
    if (spec.resize == ResizeRule::kSmart && bucket.n_pixels < spec.min_pixels) continue;
    reachable.push_back(bucket);
    if (spec.resize == ResizeRule::kSmart && bucket.n_pixels >= spec.max_pixels) break;
  }
  return reachable;
}

}  // namespace tempo9::vision
