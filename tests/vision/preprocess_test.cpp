#include "vision/preprocess.h"

#include <gtest/gtest.h>

#include <set>

#include "vision/gates.h"

namespace tempo9::vision {
namespace {

TowerSpec smart(int64_t cell, int64_t min_pixels, int64_t max_pixels) {
  return {.resize = ResizeRule::kSmart,
          .patch = cell / 2,
          .merge = 2,
          .min_pixels = min_pixels,
          .max_pixels = max_pixels,
          .mean = {0.5f, 0.5f, 0.5f},
          .std = {0.5f, 0.5f, 0.5f}};
}

struct SizeCase {
  int32_t width, height;
  int64_t cell, min_pixels, max_pixels;
  int32_t to_width, to_height;  // 0: refused
};

// By the published function, in Python.
constexpr SizeCase kSizes[] = {
    {1, 1, 32, 65536, 16777216, 256, 256},
    {10000, 3, 32, 65536, 16777216, 0, 0},
    {1920, 1080, 32, 65536, 1048576, 1344, 768},
    {1920, 1080, 32, 65536, 16777216, 1920, 1088},
    {80, 48, 32, 0, 1048576, 64, 64},  // halves go to the even side
    {336, 112, 28, 3136, 802816, 336, 112},
    {48, 80, 32, 0, 16777216, 64, 64},
    {200, 1, 32, 65536, 1048576, 3648, 32},
    {201, 1, 32, 65536, 1048576, 0, 0},
    {12000, 60, 32, 65536, 1048576, 12000, 64},
    {4032, 3024, 28, 3136, 802816, 1008, 756},
    {1024, 1024, 32, 65536, 1048576, 1024, 1024},
    {1040, 1008, 32, 65536, 1048576, 1024, 1024},
    {16, 16, 32, 0, 1048576, 32, 32},
    {560, 560, 28, 3136, 12845056, 560, 560},
};

TEST(ScaledSize, OfTheQwenFamily) {
  for (const SizeCase& c : kSizes) {
    const auto size = scaled_size(smart(c.cell, c.min_pixels, c.max_pixels), c.width, c.height);
    ASSERT_EQ(size.has_value(), c.to_width > 0) << c.width << " x " << c.height;
    if (!size) continue;
    EXPECT_EQ(size->width, c.to_width) << c.width << " x " << c.height;
    EXPECT_EQ(size->height, c.to_height) << c.width << " x " << c.height;
  }
}

// Whatever a client sends: whole tokens within the limits, or a refusal that names the size.
TEST(ScaledSize, StaysWithinTheLimits) {
  const TowerSpec spec = smart(32, 65536, 1048576);
  for (int32_t width = 1; width < 40000; width += 1 + width / 3) {
    for (int32_t height = 1; height < 40000; height += 1 + height / 3) {
      const auto size = scaled_size(spec, width, height);
      if (!size) {
        EXPECT_EQ(size.error().code(), ErrorCode::kInvalidInput);
        EXPECT_GT(std::max(width, height), 200 * std::min(width, height));
        continue;
      }
      EXPECT_EQ(size->width % 32, 0);
      EXPECT_EQ(size->height % 32, 0);
      EXPECT_LE(int64_t{size->width} * size->height, 1048576) << width << " x " << height;
      EXPECT_GT(size->width, 0);
      EXPECT_GT(size->height, 0);
    }
  }
}

TEST(ScaledSize, RefusesImagesWithoutPixelsAndHugeOnes) {
  const TowerSpec spec = smart(32, 0, 1048576);
  EXPECT_FALSE(scaled_size(spec, 0, 5));
  EXPECT_FALSE(scaled_size(spec, 5, -1));
  EXPECT_FALSE(scaled_size(spec, kMaxSide + 1, kMaxSide));
  EXPECT_TRUE(scaled_size(spec, kMaxSide, kMaxSide));
}

TEST(ScaledSize, FillsABudget) {
  const TowerSpec spec{.resize = ResizeRule::kBudget, .patch = 16, .merge = 3, .max_tokens = 280};
  const auto square = scaled_size(spec, 100, 100);
  ASSERT_TRUE(square);
  EXPECT_EQ(square->width, 768);  // floor(sqrt(280)) tokens of 48 pixels
  EXPECT_EQ(square->height, 768);
  const auto thin = scaled_size(spec, 100000 / 2, 10);
  ASSERT_TRUE(thin);
  EXPECT_EQ(thin->height, 48);
  EXPECT_EQ(thin->width, 280 * 48);
}

TEST(Patches, AreInTheOrderOfTokens) {
  const TowerSpec spec = smart(8, 0, 1 << 20);  // patches of 4 pixels
  const Image image = make_sample_image(24, 16, 1);
  const Patches patches = make_patches(spec, image, {.width = 24, .height = 16}, 32);
  ASSERT_EQ(patches.grid.width, 3);
  ASSERT_EQ(patches.grid.height, 2);
  ASSERT_EQ(patches.n_real, 24);
  ASSERT_EQ(patches.n_rows, 32);
  EXPECT_EQ(patches.y[3], 1);
  EXPECT_EQ(patches.x[3], 1);
  EXPECT_EQ(patches.y[4], 0);
  EXPECT_EQ(patches.x[4], 2);
  for (size_t row = 0; row < 24; ++row) {
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < 4; ++y) {
        for (int x = 0; x < 4; ++x) {
          const int at = ((patches.y[row] * 4 + y) * 24 + patches.x[row] * 4 + x) * 3 + c;
          const float expected = (static_cast<float>(image.rgb[static_cast<size_t>(at)]) / 255.0f - 0.5f) / 0.5f;
          EXPECT_NEAR(patches.pixels[row * 48 + static_cast<size_t>(c * 16 + y * 4 + x)], expected, 1e-6f);
        }
      }
    }
  }
  for (size_t i = 24 * 48; i < 32 * 48; ++i) EXPECT_EQ(patches.pixels[i], 0.0f);
}

TEST(Patches, OfWindowsAreNextToEachOther) {
  TowerSpec spec = smart(8, 0, 1 << 20);
  spec.window = 2;
  const Patches patches = make_patches(spec, make_sample_image(40, 24, 1), {.width = 40, .height = 24}, 64);
  ASSERT_EQ(patches.n_real, 60);  // 5 x 3 tokens
  ASSERT_EQ(patches.windows.size(), 7u);
  EXPECT_EQ(patches.windows.back().begin, 60);
  std::set<int32_t> cells;
  for (const tensor::IndexRange window : patches.windows) {
    for (int64_t row = window.begin; row < window.end && row < 60; ++row) {
      const int64_t first = window.begin;
      EXPECT_EQ(patches.y[static_cast<size_t>(row)] / 4, patches.y[static_cast<size_t>(first)] / 4);
      EXPECT_EQ(patches.x[static_cast<size_t>(row)] / 4, patches.x[static_cast<size_t>(first)] / 4);
    }
  }
  for (const int32_t cell : patches.cells) cells.insert(cell);
  EXPECT_EQ(cells.size(), 15u);
}

}  // namespace
}  // namespace tempo9::vision
