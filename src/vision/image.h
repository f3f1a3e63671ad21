// Pixels, between the file that a client sent and the encoder that looks at them.
#pragma once

#include <cstdint>
#include <vector>

namespace tempo9::vision {

// 8 bits a channel, red, green, blue, rows from the top; upright (a file's orientation is applied already).
struct Image {
  int32_t width = 0;         // pixels, > 0
  int32_t height = 0;        // pixels, > 0
  std::vector<uint8_t> rgb;  // width * height * 3
};

}  // namespace tempo9::vision
