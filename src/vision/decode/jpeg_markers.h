// The markers of a JPEG file (ITU-T T.81, annex B): what has to be known before it is decoded, and what the decoder
// does not tell.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace tempo9::vision {

struct JpegMarkers {
  int64_t n_scans = 0;  // a baseline file has one to four, a progressive file some ten
  int orientation = 1;  // of the Exif data (orientation.h)
};

// `bytes` begin with a JPEG's first marker. Errors: kInvalidInput when the file ends before its end marker.
Result<JpegMarkers> read_jpeg_markers(std::span<const uint8_t> bytes);

}  // namespace tempo9::vision
