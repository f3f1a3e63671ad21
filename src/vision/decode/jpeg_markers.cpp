#include "vision/decode/jpeg_markers.h"

#include "vision/decode/exif.h"

namespace tempo9::vision {
namespace {

constexpr uint8_t kStartOfScan = 0xda;
constexpr uint8_t kEndOfImage = 0xd9;
constexpr uint8_t kExifSegment = 0xe1;  // APP1; XMP data stands in such segments too
constexpr uint8_t kStartOfImage = 0xd8;

// A byte of data that is 0xff is followed by 0; restart marks are part of the data; 0xff may fill up before a marker.
bool is_data(uint8_t after_ff) { return after_ff == 0 || (after_ff >= 0xd0 && after_ff <= 0xd7); }

bool has_no_length(uint8_t marker) { return is_data(marker) || marker == kStartOfImage || marker == 0x01; }

}  // namespace

Result<JpegMarkers> read_jpeg_markers(std::span<const uint8_t> bytes) {
  JpegMarkers markers;
  bool has_exif = false;
  // Between segments and inside the data of scans alike: on to the next marker.
  for (size_t at = 0; at + 1 < bytes.size(); ++at) {
    if (bytes[at] != 0xff || bytes[at + 1] == 0xff) continue;
    const uint8_t marker = bytes[at + 1];
    if (marker == kEndOfImage && markers.n_scans > 0) return markers;
    if (has_no_length(marker) || marker == kEndOfImage) continue;
    if (at + 4 > bytes.size()) break;
    const size_t length = static_cast<size_t>(bytes[at + 2]) << 8 | bytes[at + 3];  // its own two bytes included
    if (length < 2 || length > bytes.size() - at - 2) break;
    if (marker == kStartOfScan) ++markers.n_scans;
    if (marker == kExifSegment && !has_exif) {
      const auto data = bytes.subspan(at + 4, length - 2);
      has_exif = data.size() >= 4 && data[0] == 'E' && data[1] == 'x' && data[2] == 'i' && data[3] == 'f';
      if (has_exif) markers.orientation = exif_orientation(data);
    }
    at += 1 + length;
  }
  return fail(ErrorCode::kInvalidInput, "the file ends before the picture does");
}

}  // namespace tempo9::vision
