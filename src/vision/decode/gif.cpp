// The first picture of a GIF by giflib, on the file's canvas.
#include <gif_lib.h>

#include <algorithm>
#include <memory>

#include "vision/decode/formats.h"

namespace tempo9::vision {
namespace {

struct Close {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using Gif = std::unique_ptr<GifFileType, Close>;

int read_some(GifFileType* gif, GifByteType* to, int n) {
  auto& rest = *static_cast<std::span<const uint8_t>*>(gif->UserData);
  const auto n_read = std::min(static_cast<size_t>(n), rest.size());
  std::copy_n(rest.begin(), n_read, to);
  rest = rest.subspan(n_read);
  return static_cast<int>(n_read);
}

std::unexpected<Error> gif_error(int code) {
  const char* text = GifErrorString(code);
  return fail(ErrorCode::kInvalidInput, text ? text : "the file is damaged");
}

// Skips extensions up to the first picture, and reads its head.
Result<void> find_picture(GifFileType* gif) {
  for (;;) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &record) == GIF_ERROR) return gif_error(gif->Error);
    if (record == TERMINATE_RECORD_TYPE) return fail(ErrorCode::kInvalidInput, "the file holds no picture");
    if (record == IMAGE_DESC_RECORD_TYPE) {
      if (DGifGetImageDesc(gif) == GIF_ERROR) return gif_error(gif->Error);
      return {};
    }
    if (record != EXTENSION_RECORD_TYPE) continue;
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return gif_error(gif->Error);
    while (block) {
      if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return gif_error(gif->Error);
    }
  }
}

// An interlaced picture has every 8th row first, then those between, in four rounds (GIF89a, appendix E).
std::vector<int32_t> row_order(int32_t n_rows, bool is_interlaced) {
  struct Round {
    int32_t first, step;
  };
  std::vector<Round> rounds = {{0, 1}};
  if (is_interlaced) rounds = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  std::vector<int32_t> rows;
  for (const Round& round : rounds) {
    for (int32_t row = round.first; row < n_rows; row += round.step) rows.push_back(row);
  }
  return rows;
}

void paint(std::span<const GifPixelType> indices, const ColorMapObject& colours, std::span<uint8_t> rgb) {
  for (size_t i = 0; i < indices.size() && i * 3 < rgb.size(); ++i) {
    if (indices[i] >= colours.ColorCount) continue;
    const GifColorType& colour = colours.Colors[indices[i]];
    rgb[i * 3] = colour.Red;
    rgb[i * 3 + 1] = colour.Green;
    rgb[i * 3 + 2] = colour.Blue;
  }
}

}  // namespace

Result<Decoded> decode_gif(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  int code = 0;
  const Gif gif(DGifOpen(&bytes, read_some, &code));
  if (!gif) return gif_error(code);
  T9_TRY_VOID(check_sides(gif->SWidth, gif->SHeight, limits));
  T9_TRY_VOID(find_picture(gif.get()));
  const GifImageDesc& part = gif->Image;
  T9_TRY_VOID(check_sides(part.Width, part.Height, limits));
  if (part.Left + part.Width > gif->SWidth || part.Top + part.Height > gif->SHeight) {
    return fail(ErrorCode::kInvalidInput, "the picture does not lie within the canvas");
  }
  const ColorMapObject* colours = part.ColorMap ? part.ColorMap : gif->SColorMap;
  if (!colours) return fail(ErrorCode::kInvalidInput, "the file has no colours");
  Image image{.width = gif->SWidth, .height = gif->SHeight};
  image.rgb.resize(static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3);
  std::vector<GifPixelType> indices(static_cast<size_t>(part.Width));
  for (const int32_t row : row_order(part.Height, part.Interlace)) {
    if (DGifGetLine(gif.get(), indices.data(), part.Width) == GIF_ERROR) return gif_error(gif->Error);
    const auto first =
        (static_cast<size_t>(part.Top + row) * static_cast<size_t>(image.width) + static_cast<size_t>(part.Left)) * 3;
    paint(indices, *colours, std::span(image.rgb).subspan(first, indices.size() * 3));
  }
  return Decoded{.image = std::move(image)};
}

}  // namespace tempo9::vision
