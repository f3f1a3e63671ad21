// What Exif data says of an image's orientation (Exif 2.32, section 4.6.4; TIFF 6.0, section 2).
#pragma once

#include <cstdint>
#include <span>

namespace tempo9::vision {

// 1 to 8; 1, upright, when the data says nothing that makes sense. `tiff` begins with the byte order mark, or with
// "Exif\0\0" before it.
int exif_orientation(std::span<const uint8_t> tiff);

}  // namespace tempo9::vision
