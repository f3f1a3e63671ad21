#include "vision/decode/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "vision/decode/formats.h"
#include "vision/decode/orientation.h"

namespace tempo9::vision {
namespace {

using Reader = Result<Decoded> (*)(std::span<const uint8_t> bytes, const DecodeLimits& limits);

// First bytes, or bytes further in, that tell a format.
struct Signature {
  size_t offset;
  std::string_view bytes;
  std::string_view name;
  Reader read;  // null: the format is known, and not read
};

using namespace std::string_view_literals;
constexpr Signature kSignatures[] = {
    {0, "\x89PNG\r\n\x1a\n"sv, "PNG", decode_png},
    {0, "\xff\xd8\xff"sv, "JPEG", decode_jpeg},
    {8, "WEBP"sv, "WebP", decode_webp},  // after RIFF and a length
    {0, "GIF87a"sv, "GIF", decode_gif},
    {0, "GIF89a"sv, "GIF", decode_gif},
    {0, "BM"sv, "BMP", nullptr},
    {0, "II*\0"sv, "TIFF", nullptr},
    {0, "MM\0*"sv, "TIFF", nullptr},
    {0, "%PDF"sv, "PDF", nullptr},
    {0, "<svg"sv, "SVG", nullptr},
    {0, "<?xml"sv, "SVG or other XML", nullptr},
    {4, "ftypavif"sv, "AVIF", nullptr},
    {4, "ftypheic"sv, "HEIC", nullptr},
    {4, "ftypheix"sv, "HEIC", nullptr},
    {4, "ftypmif1"sv, "HEIF", nullptr},
    {0, "\0\0\1\0"sv, "ICO", nullptr},
    {0, "\0\0\0\x0cJXL "sv, "JPEG XL", nullptr},
    {0, "\xff\x0a"sv, "JPEG XL", nullptr},
};

constexpr std::string_view kReadable = "send PNG, JPEG, WebP or GIF";

const Signature* find_signature(std::span<const uint8_t> bytes) {
  const auto found = std::ranges::find_if(kSignatures, [&](const Signature& s) {
    return bytes.size() >= s.offset + s.bytes.size() &&
           std::ranges::equal(bytes.subspan(s.offset, s.bytes.size()), s.bytes,
                              [](uint8_t byte, char c) { return byte == static_cast<uint8_t>(c); });
  });
  return found == std::end(kSignatures) ? nullptr : found;
}

Result<Image> decode(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  T9_TRY_VOID(check_file_size(bytes.size(), limits));
  if (bytes.empty()) return fail(ErrorCode::kInvalidInput, "the image is empty");
  const Signature* format = find_signature(bytes);
  if (!format) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("the {} bytes are of no known image format: {}", bytes.size(), kReadable));
  }
  if (!format->read) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{} images are not supported: {}", format->name, kReadable));
  }
  auto decoded = format->read(bytes, limits);
  if (!decoded) return fail(std::move(decoded).error().context(fmt::format("{} image", format->name)));
  return turn_upright(std::move(decoded->image), decoded->orientation);
}

}  // namespace

Result<Image> decode_image(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  auto image = decode(bytes, limits);
  if (!image) return fail(std::move(image).error().with_reason("invalid_image"));
  return image;
}

}  // namespace tempo9::vision
