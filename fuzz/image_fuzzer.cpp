// Image files from clients: arbitrary bytes give an image of the size that it says, or an error.
#include <cstdint>
#include <cstdlib>

#include "vision/decode/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto image = tempo9::vision::decode_image({data, size}, {.max_pixels = 1 << 20, .max_work = 1 << 24});
  if (!image) return 0;
  if (image->rgb.size() != static_cast<size_t>(image->width) * static_cast<size_t>(image->height) * 3) std::abort();
  return 0;
}
