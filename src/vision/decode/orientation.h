// Turning a picture upright.
#pragma once

#include "vision/image.h"

namespace tempo9::vision {

// `orientation` as Exif counts them, 1 to 8: 1 upright, 2 mirrored, 3 upside down, 4 both, 5 to 8 the same with rows
// and columns swapped (6: to be turned right by a quarter, 8: left).
Image turn_upright(Image image, int orientation);

}  // namespace tempo9::vision
