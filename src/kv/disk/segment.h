// One file of the disk cache: a run of pages of one text, or a recurrent state, with the text's tokens. The format is
// docs/kv-cache-format.md; nothing here touches a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct XXH3_state_s;

namespace tempo9::kv::disk {

// Of what a cache's bytes mean: model, types, layout, code. Caches of different configurations never mix.
using Config = std::array<uint64_t, 2>;
Config hash_config(std::string_view description);
std::string to_hex(const Config& config);

// Of one layer's pages.
struct LayerBytes {
  size_t k = 0;
  size_t v = 0;
  int32_t pool = 0;
};

// What the pages and states of a cache look like.
struct Geometry {
  std::vector<LayerBytes> layers;
  int32_t n_pools = 0;
  size_t state_bytes = 0;

  size_t page_bytes() const;  // over all layers
};

// What a segment holds, all but the bytes themselves.
struct SegmentHead {
  std::vector<int32_t> tokens;  // from the text's beginning to the segment's end
  int64_t first_page = 0;       // pages are those of the tokens [32 first_page, end); none for a state
  bool has_state = false;       // the recurrent state after the last token
  std::vector<bool> present;    // by page * n_pools + pool: sliding layers may have given a page back
  uint64_t payload_checksum = 0;

  int64_t n_pages() const;
  bool is_present(int64_t page, int32_t pool, int32_t n_pools) const {
    return present[static_cast<size_t>(page * n_pools + pool)];
  }
};

// Bytes of the payload: for each layer K and V of each page that is present, page by page; then the state.
size_t payload_bytes(const SegmentHead& head, const Geometry& geometry);
// Bytes that encode() gives.
size_t encoded_bytes(const SegmentHead& head);
std::vector<std::byte> encode(const SegmentHead& head, const Config& config, size_t n_payload_bytes);

// Bytes to read so that decode() has the whole head: known from the first kFixedBytes of the file. Errors:
// kInvalidInput when they can't be the beginning of a segment.
inline constexpr size_t kFixedBytes = 64;
Result<size_t> head_bytes(std::span<const std::byte> first_bytes);
// Of bytes that may be anything, from a file of `file_bytes`. Errors: kInvalidInput, with the reason, when they are
// damaged, cut, of another version or of another configuration.
Result<SegmentHead> decode(std::span<const std::byte> bytes, size_t file_bytes, const Config& config,
                           const Geometry& geometry);

// XXH3 of a payload that comes in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  XXH3_state_s* state_;
};

}  // namespace tempo9::kv::disk
