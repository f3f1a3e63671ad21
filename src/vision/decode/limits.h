// How large an image from outside may be. All of it is checked by what the file's header says, before memory is taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace tempo9::vision {

struct DecodeLimits {
  size_t max_bytes = size_t{32} << 20;  // of the file
  int32_t max_side = 32'768;            // pixels
  int64_t max_pixels = 50'000'000;      // a phone's 48 megapixels; 3 bytes each, and some 6 more while a JPEG is read
  // Decoded pixels, each time that a scan of a progressive JPEG goes over them: bounds the time, some seconds at most.
  int64_t max_work = 1'500'000'000;
};

// Errors: kInvalidInput, with both sizes.
Result<void> check_file_size(size_t n_bytes, const DecodeLimits& limits);
Result<void> check_sides(int64_t width, int64_t height, const DecodeLimits& limits);

}  // namespace tempo9::vision
