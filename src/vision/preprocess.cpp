#include "vision/preprocess.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "vision/resize.h"

namespace tempo9::vision {
namespace {

// std::nearbyint rounds halves to even, as the reference's round() does.
int64_t nearest_multiple(int64_t n, int64_t factor) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(n) / static_cast<double>(factor))) * factor;
}
int64_t multiple_below(double x, int64_t factor) {
  return static_cast<int64_t>(std::floor(x / static_cast<double>(factor))) * factor;
}
int64_t multiple_above(double x, int64_t factor) {
  return static_cast<int64_t>(std::ceil(x / static_cast<double>(factor))) * factor;
}

PixelSize size_of(int64_t width, int64_t height) {
  return {.width = static_cast<int32_t>(width), .height = static_cast<int32_t>(height)};
}

Result<PixelSize> smart_size(const TowerSpec& spec, int64_t width, int64_t height) {
  const auto [shorter, longer] = std::minmax(width, height);
  if (longer > shorter * kMaxAspect) {
    return fail(
        ErrorCode::kInvalidInput,
        fmt::format("image of {} x {} pixels: one side is more than {} times the other", width, height, kMaxAspect));
  }
  const int64_t cell = spec.patch * spec.merge;
  const auto pixels = static_cast<double>(width * height);
  int64_t to_width = std::max(cell, nearest_multiple(width, cell));
  int64_t to_height = std::max(cell, nearest_multiple(height, cell));
  if (to_width * to_height > spec.max_pixels) {
    const double scale = std::sqrt(pixels / static_cast<double>(spec.max_pixels));
    to_width = std::max(cell, multiple_below(static_cast<double>(width) / scale, cell));
    to_height = std::max(cell, multiple_below(static_cast<double>(height) / scale, cell));
  } else if (to_width * to_height < spec.min_pixels) {
    const double scale = std::sqrt(static_cast<double>(spec.min_pixels) / pixels);
    to_width = multiple_above(static_cast<double>(width) * scale, cell);
    to_height = multiple_above(static_cast<double>(height) * scale, cell);
  }
  return size_of(to_width, to_height);
}

Result<PixelSize> budget_size(const TowerSpec& spec, int64_t width, int64_t height) {
  const int64_t cell = spec.patch * spec.merge;
  const auto budget = static_cast<double>(spec.max_tokens * cell * cell);
  const double scale = std::sqrt(budget / static_cast<double>(width * height));
  int64_t to_width = multiple_below(static_cast<double>(width) * scale, cell);
  int64_t to_height = multiple_below(static_cast<double>(height) * scale, cell);
  if (to_width == 0 && to_height == 0) {
    return fail(ErrorCode::kInvalidInput, fmt::format("image of {} x {} pixels: too small", width, height));
  }
  // A side that became nothing is one token; the other then keeps the image's proportions as far as tokens reach.
  const auto [shorter, longer] = std::minmax(width, height);
  const int64_t rest = std::min(longer / shorter, spec.max_tokens) * cell;
  if (to_width == 0) return size_of(cell, rest);
  if (to_height == 0) return size_of(rest, cell);
  return size_of(to_width, to_height);
}

// Tokens in the order of rows: row-major, or window after window.
std::vector<int32_t> token_order(TokenGrid grid, int64_t window) {
  const int64_t side = window > 0 ? window : std::max(grid.height, grid.width);
  std::vector<int32_t> cells;
  if (window == 0) {
    for (int64_t i = 0; i < grid.n_tokens(); ++i) cells.push_back(static_cast<int32_t>(i));
    return cells;
  }
  for (int64_t top = 0; top < grid.height; top += side) {
    for (int64_t left = 0; left < grid.width; left += side) {
      for (int64_t y = top; y < std::min<int64_t>(grid.height, top + side); ++y) {
        for (int64_t x = left; x < std::min<int64_t>(grid.width, left + side); ++x) {
          cells.push_back(static_cast<int32_t>(y * grid.width + x));
        }
      }
    }
  }
  return cells;
}

std::vector<tensor::IndexRange> window_ranges(TokenGrid grid, int64_t window, int64_t rows_per_token) {
  std::vector<tensor::IndexRange> ranges;
  int64_t begin = 0;
  for (int64_t top = 0; window > 0 && top < grid.height; top += window) {
    for (int64_t left = 0; left < grid.width; left += window) {
      const int64_t n_tokens =
          std::min<int64_t>(window, grid.height - top) * std::min<int64_t>(window, grid.width - left);
      ranges.push_back({begin, begin + n_tokens * rows_per_token});
      begin = ranges.back().end;
    }
  }
  return ranges;
}

// Channel by channel, row by row.
void copy_patch(const TowerSpec& spec, const Image& image, int64_t y, int64_t x, float* out) {
  for (size_t c = 0; c < 3; ++c) {
    const float scale = 1.0f / (255.0f * spec.std[c]), offset = spec.mean[c] / spec.std[c];
    for (int64_t row = y * spec.patch; row < (y + 1) * spec.patch; ++row) {
      const uint8_t* from = image.rgb.data() + (row * image.width + x * spec.patch) * 3 + c;
      for (int64_t col = 0; col < spec.patch; ++col) *out++ = static_cast<float>(from[3 * col]) * scale - offset;
    }
  }
}

}  // namespace

Result<PixelSize> scaled_size(const TowerSpec& spec, int32_t width, int32_t height) {
  if (width < 1 || height < 1 || width > kMaxSide || height > kMaxSide) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("image of {} x {} pixels: sides must be 1 to {} pixels", width, height, kMaxSide));
  }
  switch (spec.resize) {
    case ResizeRule::kSmart:
      return smart_size(spec, width, height);
    case ResizeRule::kBudget:
      return budget_size(spec, width, height);
    case ResizeRule::kStretch:
      break;
  }
  return size_of(spec.side * spec.patch, spec.side * spec.patch);
}

TokenGrid token_grid(const TowerSpec& spec, PixelSize scaled) {
  const auto cell = static_cast<int32_t>(spec.patch * spec.merge);
  return {.height = scaled.height / cell, .width = scaled.width / cell};
}

Patches make_patches(const TowerSpec& spec, const Image& image, PixelSize scaled, int64_t n_rows) {
  const Image resized = resize(image, scaled.width, scaled.height, spec.filter);
  const int64_t per_token = spec.merge * spec.merge;
  Patches patches{.n_real = 0,
                  .n_rows = 0,
                  .grid = token_grid(spec, scaled),
                  .pixels = {},
                  .y = {},
                  .x = {},
                  .cells = {},
                  .windows = {}};
  patches.n_real = patches.grid.n_tokens() * per_token;
  patches.n_rows = std::max(n_rows, patches.n_real);
  T9_CHECK(n_rows == 0 || n_rows >= patches.n_real);
  patches.pixels.resize(static_cast<size_t>(patches.n_rows * spec.patch_values()));
  patches.y.resize(static_cast<size_t>(patches.n_rows));
  patches.x.resize(static_cast<size_t>(patches.n_rows));
  patches.cells = token_order(patches.grid, spec.window);
  patches.windows = window_ranges(patches.grid, spec.window, per_token);
  if (patches.n_rows > patches.n_real && spec.window > 0) patches.windows.push_back({patches.n_real, patches.n_rows});
  for (int64_t i = 0; i < patches.n_real; ++i) {
    const int64_t cell = patches.cells[static_cast<size_t>(i / per_token)], inside = i % per_token;
    const int64_t y = cell / patches.grid.width * spec.merge + inside / spec.merge;
    const int64_t x = cell % patches.grid.width * spec.merge + inside % spec.merge;
    patches.y[static_cast<size_t>(i)] = static_cast<int32_t>(y);
    patches.x[static_cast<size_t>(i)] = static_cast<int32_t>(x);
    copy_patch(spec, resized, y, x, patches.pixels.data() + i * spec.patch_values());
  }
  return patches;
}

}  // namespace tempo9::vision
