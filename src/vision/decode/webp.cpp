// WebP by libwebp; the first picture of an animation by its demultiplexer.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>

#include "vision/decode/exif.h"
#include "vision/decode/formats.h"

namespace tempo9::vision {
namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
struct DeleteAnimation {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
};

int find_orientation(const WebPData& data) {
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemux(&data));
  WebPChunkIterator chunk{};
  if (!demuxer || !WebPDemuxGetChunk(demuxer.get(), "EXIF", 1, &chunk)) return 1;
  const int orientation = exif_orientation({chunk.chunk.bytes, chunk.chunk.size});
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

std::unexpected<Error> damaged() { return fail(ErrorCode::kInvalidInput, "the file is damaged or ends too early"); }

// The whole canvas, of which the first picture may be a part.
Result<Image> decode_first(const WebPData& data, const DecodeLimits& limits) {
  WebPAnimDecoderOptions options{};
  if (!WebPAnimDecoderOptionsInit(&options)) return fail(ErrorCode::kInternal, "libwebp is of another version");
  options.color_mode = MODE_RGBA;
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemux(&data));
  if (!demuxer) return damaged();
  const auto width = static_cast<int64_t>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH));
  const auto height = static_cast<int64_t>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT));
  T9_TRY_VOID(check_sides(width, height, limits));
  const std::unique_ptr<WebPAnimDecoder, DeleteAnimation> decoder(WebPAnimDecoderNew(&data, &options));
  uint8_t* rgba = nullptr;  // the decoder's
  int time_ms = 0;
  if (!decoder || !WebPAnimDecoderGetNext(decoder.get(), &rgba, &time_ms)) return damaged();
  Image image{.width = static_cast<int32_t>(width), .height = static_cast<int32_t>(height)};
  const auto n_pixels = static_cast<size_t>(width * height);
  image.rgb.resize(n_pixels * 3);
  for (size_t i = 0; i < n_pixels; ++i) std::copy_n(rgba + i * 4, 3, image.rgb.begin() + static_cast<int64_t>(i) * 3);
  return image;
}

}  // namespace

Result<Decoded> decode_webp(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(bytes.data(), bytes.size(), &features) != VP8_STATUS_OK) return damaged();
  T9_TRY_VOID(check_sides(features.width, features.height, limits));
  const WebPData data{bytes.data(), bytes.size()};
  Decoded decoded{.image = {}, .orientation = find_orientation(data)};
  if (features.has_animation) {
    T9_TRY(image, decode_first(data, limits));
    decoded.image = std::move(image);
    return decoded;
  }
  decoded.image = {.width = features.width, .height = features.height};
  const int stride = features.width * 3;
  decoded.image.rgb.resize(static_cast<size_t>(stride) * static_cast<size_t>(features.height));
  if (!WebPDecodeRGBInto(bytes.data(), bytes.size(), decoded.image.rgb.data(), decoded.image.rgb.size(), stride)) {
    return damaged();
  }
  return decoded;
}

}  // namespace tempo9::vision
