// JPEG by libjpeg-turbo's TurboJPEG interface, which keeps its jumps on errors to itself.
#include <fmt/format.h>
#include <turbojpeg.h>

#include <memory>
#include <type_traits>

#include "vision/decode/formats.h"
#include "vision/decode/jpeg_markers.h"

namespace tempo9::vision {
namespace {

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<tjhandle>, Destroy>;

std::unexpected<Error> jpeg_error(const Handle& handle) {
  return fail(ErrorCode::kInvalidInput, tjGetErrorStr2(handle.get()));
}

// A warning is a picture with a fault in it, such as stray bytes between segments; cameras write those.
bool has_failed(const Handle& handle, int status) {
  return status != 0 && tjGetErrorCode(handle.get()) != TJERR_WARNING;
}

// Files with four channels hold inverted ink, as Adobe's programs write it.
void ink_to_rgb(std::span<const uint8_t> ink, std::span<uint8_t> rgb) {
  for (size_t i = 0; i < rgb.size() / 3; ++i) {
    const uint32_t black = ink[i * 4 + 3];
    for (size_t c = 0; c < 3; ++c) rgb[i * 3 + c] = static_cast<uint8_t>((ink[i * 4 + c] * black + 127) / 255);
  }
}

}  // namespace

Result<Decoded> decode_jpeg(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  const Handle handle(tjInitDecompress());
  if (!handle) return fail(ErrorCode::kInternal, "libjpeg-turbo has no memory");
  const auto n_bytes = static_cast<unsigned long>(bytes.size());  // the library's type
  int width = 0, height = 0, subsampling = 0, colours = 0;
  const int head = tjDecompressHeader3(handle.get(), bytes.data(), n_bytes, &width, &height, &subsampling, &colours);
  if (has_failed(handle, head)) return jpeg_error(handle);
  T9_TRY_VOID(check_sides(width, height, limits));
  T9_TRY(markers, read_jpeg_markers(bytes));
  const int64_t n_pixels = int64_t{width} * height;
  if (markers.n_scans * n_pixels > limits.max_work) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("{} scans of {} by {} pixels take too long to decode", markers.n_scans, width, height));
  }
  const bool has_ink = colours == TJCS_CMYK || colours == TJCS_YCCK;
  std::vector<uint8_t> pixels(static_cast<size_t>(n_pixels) * (has_ink ? 4 : 3));
  const int status = tjDecompress2(handle.get(), bytes.data(), n_bytes, pixels.data(), width, 0, height,
                                   has_ink ? TJPF_CMYK : TJPF_RGB, TJFLAG_LIMITSCANS);
  if (has_failed(handle, status)) return jpeg_error(handle);
  Decoded decoded{.image = {.width = width, .height = height}, .orientation = markers.orientation};
  if (has_ink) {
    decoded.image.rgb.resize(static_cast<size_t>(n_pixels) * 3);
    ink_to_rgb(pixels, decoded.image.rgb);
  } else {
    decoded.image.rgb = std::move(pixels);
  }
  return decoded;
}

}  // namespace tempo9::vision
