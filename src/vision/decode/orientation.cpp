#include "vision/decode/orientation.h"

#include <algorithm>
#include <utility>

namespace tempo9::vision {

// Where the pixel of the upright picture at (x, y) stands in the file: columns and rows may be swapped, then either may
// run backwards.
Image turn_upright(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool swaps = orientation >= 5;
  const bool column_backwards = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool row_backwards = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image upright{.width = swaps ? image.height : image.width,
                .height = swaps ? image.width : image.height,
                .rgb = std::vector<uint8_t>(image.rgb.size())};
  auto to = upright.rgb.begin();
  for (int32_t y = 0; y < upright.height; ++y) {
    for (int32_t x = 0; x < upright.width; ++x) {
      int32_t column = swaps ? y : x;
      int32_t row = swaps ? x : y;
      if (column_backwards) column = image.width - 1 - column;
      if (row_backwards) row = image.height - 1 - row;
      const auto from = image.rgb.begin() + (int64_t{row} * image.width + column) * 3;
      to = std::copy(from, from + 3, to);
    }
  }
  return upright;
}

}  // namespace tempo9::vision
