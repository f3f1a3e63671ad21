// Changes an image's size as the reference preprocessing does: a separable filter, widened by the scale when the image
// becomes smaller (antialiasing), on 8-bit values, rounded to 8 bits after each of the two passes.
#pragma once

#include "vision/image.h"
#include "vision/tower_spec.h"

namespace tempo9::vision {

// REQUIRES: width and height > 0, and the image is not empty. Columns first, then rows; a pass that changes nothing is
// left out. Weights are 22-bit fixed point, as in Pillow's resize(), whose bytes each pass gives. (Pillow 13 does rows
// first where that is less work; then single values differ by a level.)
Image resize(const Image& image, int32_t width, int32_t height, Filter filter);

}  // namespace tempo9::vision
