#include "vision/decode/exif.h"

#include <algorithm>
#include <optional>

namespace tempo9::vision {
namespace {

constexpr uint8_t kExifMark[] = {'E', 'x', 'i', 'f', 0, 0};
constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShort = 3;
constexpr size_t kEntryBytes = 12;  // tag, type: 2 bytes each; count, value: 4

class TiffReader {
 public:
  explicit TiffReader(std::span<const uint8_t> bytes) : bytes_(bytes), is_big_(bytes[0] == 'M') {}

  std::optional<uint32_t> read(size_t offset, size_t n_bytes) const {
    if (offset > bytes_.size() || bytes_.size() - offset < n_bytes) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < n_bytes; ++i) value = value << 8 | bytes_[offset + (is_big_ ? i : n_bytes - 1 - i)];
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool is_big_;
};

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) {
  if (tiff.size() >= std::size(kExifMark) && std::ranges::equal(tiff.first(std::size(kExifMark)), kExifMark)) {
    tiff = tiff.subspan(std::size(kExifMark));
  }
  if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) return 1;
  const TiffReader reader(tiff);
  const size_t directory = *reader.read(4, 4);
  const auto n_entries = reader.read(directory, 2);
  for (size_t i = 0; n_entries && i < *n_entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    const auto tag = reader.read(entry, 2), type = reader.read(entry + 2, 2), value = reader.read(entry + 8, 2);
    if (!value) return 1;
    if (tag != kOrientationTag) continue;
    return type == kShort && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
  }
  return 1;
}

}  // namespace tempo9::vision
