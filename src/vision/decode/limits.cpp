#include "vision/decode/limits.h"

#include <fmt/format.h>

namespace tempo9::vision {

Result<void> check_file_size(size_t n_bytes, const DecodeLimits& limits) {
  if (n_bytes <= limits.max_bytes) return {};
  return fail(ErrorCode::kInvalidInput,
              fmt::format("the image's file has {} bytes, {} are allowed", n_bytes, limits.max_bytes));
}

Result<void> check_sides(int64_t width, int64_t height, const DecodeLimits& limits) {
  if (width <= 0 || height <= 0) {
    return fail(ErrorCode::kInvalidInput, fmt::format("the image is empty: {} by {} pixels", width, height));
  }
  if (width > limits.max_side || height > limits.max_side) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("the image has {} by {} pixels, {} are allowed on a side", width, height, limits.max_side));
  }
  if (width * height > limits.max_pixels) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("the image has {} by {} pixels, {} are allowed in all", width, height, limits.max_pixels));
  }
  return {};
}

}  // namespace tempo9::vision
