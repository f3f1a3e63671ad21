// The readers of each format. For decode.cpp only.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "vision/decode/limits.h"
#include "vision/image.h"

namespace tempo9::vision {

struct Decoded {
  Image image;          // as the file has it
  int orientation = 1;  // how to turn it (orientation.h)
};

// Errors: kInvalidInput. Each checks the sides that the header tells before it takes memory for pixels.
Result<Decoded> decode_png(std::span<const uint8_t> bytes, const DecodeLimits& limits);
Result<Decoded> decode_jpeg(std::span<const uint8_t> bytes, const DecodeLimits& limits);
Result<Decoded> decode_webp(std::span<const uint8_t> bytes, const DecodeLimits& limits);
Result<Decoded> decode_gif(std::span<const uint8_t> bytes, const DecodeLimits& limits);

}  // namespace tempo9::vision
