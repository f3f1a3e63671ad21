// From an image to what a tower reads: its size after scaling, then patches with their places. Rules: spec models 12.2,
// 12.5, 12.7.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tensor/views.h"
#include "vision/encoder.h"
#include "vision/image.h"
#include "vision/tower_spec.h"

namespace tempo9::vision {

struct PixelSize {
  int32_t width = 0;
  int32_t height = 0;
};

// A side of an image is at most this.
inline constexpr int32_t kMaxSide = 1 << 16;
// The longer side is at most so many times the shorter (kSmart).
inline constexpr int32_t kMaxAspect = 200;

// What an image of this size is scaled to: whole tokens. Errors: kInvalidInput, for the client.
Result<PixelSize> scaled_size(const TowerSpec& spec, int32_t width, int32_t height);
TokenGrid token_grid(const TowerSpec& spec, PixelSize scaled);

// An image as rows, one per patch. The merge * merge patches of a token are adjacent, row-major among themselves; the
// tokens are row-major in the image or, for towers with windows, window after window.
struct Patches {
  int64_t n_real = 0;                       // rows of the image; those after them are padding, all zeros
  int64_t n_rows = 0;                       // with padding
  TokenGrid grid;                           // of tokens
  std::vector<float> pixels;                // n_rows * TowerSpec::patch_values()
  std::vector<int32_t> y, x;                // of each row, in patches
  std::vector<int32_t> cells;               // of each token: where it belongs in the grid, row-major
  std::vector<tensor::IndexRange> windows;  // rows that windowed blocks see together; padding has one of its own
};

// Scales the image and cuts it up. `n_rows` of at least the image's own patches pads to so many; 0: no padding.
Patches make_patches(const TowerSpec& spec, const Image& image, PixelSize scaled, int64_t n_rows = 0);

}  // namespace tempo9::vision
