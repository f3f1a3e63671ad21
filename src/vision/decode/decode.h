// From the bytes of an image's file to its pixels. PNG, JPEG, WebP and GIF, told apart by their first bytes whatever
// the sender says they are; of moving pictures the first one. Other formats are refused by name.
//
// Alpha is dropped, not composited (spec models 12.2); 16 bits a channel become 8; palettes, grey and CMYK become red,
// green, blue; the orientation that Exif data tells is applied.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "vision/decode/limits.h"
#include "vision/image.h"

namespace tempo9::vision {

// Safe on any bytes; any thread. A file that ends before its last pixel is an error: half a picture is none. Errors:
// kInvalidInput with the reason "invalid_image" and a message for the sender.
Result<Image> decode_image(std::span<const uint8_t> bytes, const DecodeLimits& limits = {});

}  // namespace tempo9::vision
