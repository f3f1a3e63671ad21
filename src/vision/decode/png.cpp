// PNG by libpng's simplified interface, which keeps its jumps on errors to itself. The first picture of an animated
// file is the one that readers without animation see.
#include <png.h>

#include <memory>

#include "vision/decode/exif.h"
#include "vision/decode/formats.h"

namespace tempo9::vision {
namespace {

uint32_t read_u32(std::span<const uint8_t> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

// Of the chunk eXIf, which libpng's simplified interface does not show.
int find_orientation(std::span<const uint8_t> bytes) {
  constexpr size_t kSignatureBytes = 8, kChunkBytes = 12;  // a chunk without its data: length, name, checksum
  for (bytes = bytes.subspan(kSignatureBytes); bytes.size() >= kChunkBytes;) {
    const size_t n_data = read_u32(bytes);
    if (n_data > bytes.size() - kChunkBytes) return 1;
    if (read_u32(bytes.subspan(4)) == 0x65584966) return exif_orientation(bytes.subspan(8, n_data));
    bytes = bytes.subspan(kChunkBytes + n_data);
  }
  return 1;
}

struct PngImage : png_image {
  PngImage() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(this); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

std::unexpected<Error> png_error(const png_image& png) { return fail(ErrorCode::kInvalidInput, png.message); }

}  // namespace

Result<Decoded> decode_png(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  PngImage png;
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) return png_error(png);
  T9_TRY_VOID(check_sides(png.width, png.height, limits));
  // Without alpha in the result, libpng would composite.
  png.format = PNG_FORMAT_RGBA;
  // Files with 16 bits are as bright as those with 8.
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  const size_t n_pixels = size_t{png.width} * png.height;
  Decoded decoded{.image = {.width = static_cast<int32_t>(png.width), .height = static_cast<int32_t>(png.height)},
                  .orientation = find_orientation(bytes)};
  std::vector<uint8_t>& rgb = decoded.image.rgb;
  rgb.resize(n_pixels * 4);
  if (!png_image_finish_read(&png, nullptr, rgb.data(), 0, nullptr)) return png_error(png);
  for (size_t i = 1; i < n_pixels; ++i) {
    for (size_t c = 0; c < 3; ++c) rgb[i * 3 + c] = rgb[i * 4 + c];
  }
  rgb.resize(n_pixels * 3);
  return decoded;
}

}  // namespace tempo9::vision
