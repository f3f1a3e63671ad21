#include "vision/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/check.h"
#include "vision/buckets.h"
#include "vision/preprocess.h"

namespace tempo9::vision {
namespace {

// Images whose patches fill the bucket, and one that leaves room.
std::vector<Image> sample_images(const Bucket& bucket, const TowerSpec& spec, uint32_t seed) {
  const auto side = static_cast<int32_t>(std::sqrt(static_cast<double>(bucket.n_pixels)));
  const auto cell = static_cast<int32_t>(spec.patch * spec.merge);
  std::vector<Image> images;
  images.push_back(make_sample_image(side, side, seed));
  images.push_back(make_sample_image(std::max(cell, side * 5 / 4 / cell * cell),
                                     std::max(cell, side * 3 / 5 / cell * cell), seed + 1));
  return images;
}

// Whether an image is the bucket's business.
bool falls_into(const Bucket& bucket, std::span<const Bucket> buckets, TokenGrid grid, const TowerSpec& spec) {
  const Bucket* found = find_bucket(buckets, grid.n_tokens() * spec.merge * spec.merge);
  return found != nullptr && found->n_patches == bucket.n_patches;
}

}  // namespace

Result<void> check_residency(const Residency& residency) {
  if (residency.n_fallback == 0) return {};
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("residency: {} of {} linear layers have no kernel of their own on {} ({})", residency.n_fallback,
                  residency.n_fallback + residency.n_native, residency.executor, residency.detail));
}

double least_cosine(std::span<const float> a, std::span<const float> b, int64_t part_cols) {
  T9_CHECK(a.size() == b.size() && std::ssize(a) % part_cols == 0);
  double least = 1.0;
  for (size_t begin = 0; begin < a.size(); begin += static_cast<size_t>(part_cols)) {
    double ab = 0.0, aa = 0.0, bb = 0.0;
    for (size_t i = begin; i < begin + static_cast<size_t>(part_cols); ++i) {
      ab += double{a[i]} * b[i];
      aa += double{a[i]} * a[i];
      bb += double{b[i]} * b[i];
    }
    const double cosine = aa == 0.0 && bb == 0.0 ? 1.0 : ab / std::sqrt(aa * bb);
    // Also for what is no number.
    if (!(cosine >= least)) least = std::isnan(cosine) ? -1.0 : cosine;
  }
  return least;
}

Image make_sample_image(int32_t width, int32_t height, uint32_t seed) {
  std::mt19937 random(seed);
  Image image{.width = width, .height = height, .rgb = {}};
  image.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (int32_t y = 0; y < height; ++y) {
    for (int32_t x = 0; x < width; ++x) {
      uint8_t* pixel =
          image.rgb.data() + (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3;
      pixel[0] = static_cast<uint8_t>(255 * x / width);
      pixel[1] = static_cast<uint8_t>(255 * y / height);
      pixel[2] = static_cast<uint8_t>(96 + random() % 32);
    }
  }
  for (int32_t size = std::max(width, height) / 2; size >= 8; size = size * 2 / 3) {
    const auto left = static_cast<int32_t>(random() % static_cast<uint32_t>(width));
    const auto top = static_cast<int32_t>(random() % static_cast<uint32_t>(height));
    const uint32_t colour = random();
    const bool is_round = random() % 2 == 0;
    for (int32_t y = top; y < std::min(height, top + size); ++y) {
      for (int32_t x = left; x < std::min(width, left + size); ++x) {
        const int64_t dx = 2 * (x - left) - size, dy = 2 * (y - top) - size;
        if (is_round && dx * dx + dy * dy > int64_t{size} * size) continue;
        uint8_t* pixel =
            image.rgb.data() + (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3;
        for (int c = 0; c < 3; ++c) pixel[c] = static_cast<uint8_t>(colour >> (8 * c));
      }
    }
  }
  return image;
}

Result<std::vector<BucketGate>> check_buckets(ImageEncoder& tower, ImageEncoder& exact, const TowerSpec& spec,
                                              std::span<const Bucket> buckets) {
  std::vector<BucketGate> gates;
  for (const Bucket& bucket : buckets) {
    BucketGate gate{.bucket = bucket.name};
    for (const Image& image : sample_images(bucket, spec, static_cast<uint32_t>(bucket.n_patches))) {
      T9_TRY(grid, exact.grid_of(image.width, image.height));
      if (!falls_into(bucket, buckets, grid, spec)) continue;
      T9_TRY(expected, exact.encode(image, {}));
      T9_TRY(got, tower.encode(image, {}));
      if (got.rows.size() != expected.rows.size()) {
        return fail(ErrorCode::kInternal, fmt::format("bucket {}: {} values instead of {}", bucket.name,
                                                      got.rows.size(), expected.rows.size()));
      }
      ++gate.n_images;
      gate.n_rows += grid.n_tokens();
      gate.min_cosine = std::min(gate.min_cosine, least_cosine(got.rows, expected.rows, spec.out_width()));
    }
    if (gate.n_images == 0 || gate.min_cosine < kMinCosine) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("bucket {}: least cosine {:.6f} over {} images, must be {} at least", bucket.name,
                              gate.n_images == 0 ? 0.0 : gate.min_cosine, gate.n_images, kMinCosine));
    }
    gates.push_back(std::move(gate));
  }
  return gates;
}

}  // namespace tempo9::vision
