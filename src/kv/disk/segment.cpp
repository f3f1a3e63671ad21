#include "kv/disk/segment.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <numeric>

#include "base/byte_stream.h"
#include "base/check.h"
#include "tensor/kv_view.h"

namespace tempo9::kv::disk {
namespace {

constexpr uint32_t kMagic = 0x56'4B'39'54;  // "T9KV"
constexpr uint32_t kVersion = 1;
constexpr uint32_t kStateFlag = 1;
constexpr size_t kChecksumBytes = sizeof(uint64_t);

int64_t pages_for(int64_t n_tokens) { return (n_tokens + tensor::kPageTokens - 1) / tensor::kPageTokens; }

std::unexpected<Error> damaged(std::string what) { return fail(ErrorCode::kInvalidInput, std::move(what)); }

// The fields of the first kFixedBytes, in their order.
struct Fixed {
  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  Config config{};
  uint64_t payload_bytes = 0;
  uint64_t payload_checksum = 0;
  uint32_t n_tokens = 0;
  uint32_t first_page = 0;
  uint32_t n_present = 0;  // entries of the table
  uint32_t flags = 0;
  uint64_t reserved = 0;
};

void write_fixed(ByteWriter& out, const Fixed& fixed) {
  out.number(fixed.magic);
  out.number(fixed.version);
  for (const uint64_t part : fixed.config) out.number(part);
  out.number(fixed.payload_bytes);
  out.number(fixed.payload_checksum);
  out.number(fixed.n_tokens);
  out.number(fixed.first_page);
  out.number(fixed.n_present);
  out.number(fixed.flags);
  out.number(fixed.reserved);
}

Fixed read_fixed(ByteReader& in) {
  Fixed fixed;
  fixed.magic = in.number<uint32_t>();
  fixed.version = in.number<uint32_t>();
  for (uint64_t& part : fixed.config) part = in.number<uint64_t>();
  fixed.payload_bytes = in.number<uint64_t>();
  fixed.payload_checksum = in.number<uint64_t>();
  fixed.n_tokens = in.number<uint32_t>();
  fixed.first_page = in.number<uint32_t>();
  fixed.n_present = in.number<uint32_t>();
  fixed.flags = in.number<uint32_t>();
  fixed.reserved = in.number<uint64_t>();
  return fixed;
}

size_t bytes_of_head(uint64_t n_tokens, uint64_t n_present) {
  return kFixedBytes + static_cast<size_t>(n_tokens) * sizeof(int32_t) + static_cast<size_t>(n_present) +
         kChecksumBytes;
}

}  // namespace

Config hash_config(std::string_view description) {
  const XXH128_hash_t hash = XXH3_128bits(description.data(), description.size());
  return {hash.high64, hash.low64};
}

std::string to_hex(const Config& config) { return fmt::format("{:016x}{:016x}", config[0], config[1]); }

size_t Geometry::page_bytes() const {
  return std::accumulate(layers.begin(), layers.end(), size_t{0},
                         [](size_t sum, const LayerBytes& layer) { return sum + layer.k + layer.v; });
}

int64_t SegmentHead::n_pages() const { return present.empty() ? 0 : pages_for(std::ssize(tokens)) - first_page; }

size_t payload_bytes(const SegmentHead& head, const Geometry& geometry) {
  size_t bytes = head.has_state ? geometry.state_bytes : 0;
  for (const LayerBytes& layer : geometry.layers) {
    for (int64_t page = 0; page < head.n_pages(); ++page) {
      if (head.is_present(page, layer.pool, geometry.n_pools)) bytes += layer.k + layer.v;
    }
  }
  return bytes;
}

size_t encoded_bytes(const SegmentHead& head) { return bytes_of_head(head.tokens.size(), head.present.size()); }

std::vector<std::byte> encode(const SegmentHead& head, const Config& config, size_t n_payload_bytes) {
  ByteWriter out;
  write_fixed(out, {.config = config,
                    .payload_bytes = n_payload_bytes,
                    .payload_checksum = head.payload_checksum,
                    .n_tokens = static_cast<uint32_t>(head.tokens.size()),
                    .first_page = static_cast<uint32_t>(head.first_page),
                    .n_present = static_cast<uint32_t>(head.present.size()),
                    .flags = head.has_state ? kStateFlag : 0});
  T9_CHECK(out.data().size() == kFixedBytes);
  for (const int32_t token : head.tokens) out.number(token);
  for (const bool present : head.present) out.number(static_cast<uint8_t>(present));
  out.number(static_cast<uint64_t>(XXH3_64bits(out.data().data(), out.data().size())));
  T9_CHECK(out.data().size() == encoded_bytes(head));
  return out.data();
}

Result<size_t> head_bytes(std::span<const std::byte> first_bytes) {
  if (first_bytes.size() < kFixedBytes) return damaged("ends in its head");
  ByteReader in(first_bytes);
  const Fixed fixed = read_fixed(in);
  if (fixed.magic != kMagic) return damaged("is no segment of a KV cache");
  if (fixed.version != kVersion) return damaged(fmt::format("version {}, not {}", fixed.version, kVersion));
  return bytes_of_head(fixed.n_tokens, fixed.n_present);
}

Result<SegmentHead> decode(std::span<const std::byte> bytes, size_t file_bytes, const Config& config,
                           const Geometry& geometry) {
  T9_TRY(n_bytes, head_bytes(bytes));
  if (bytes.size() < n_bytes) return damaged("ends in its head");
  ByteReader in(bytes.first(n_bytes));
  const Fixed fixed = read_fixed(in);
  const uint64_t checksum = XXH3_64bits(bytes.data(), n_bytes - kChecksumBytes);
  SegmentHead head{.tokens = std::vector<int32_t>(fixed.n_tokens),
                   .first_page = fixed.first_page,
                   .has_state = (fixed.flags & kStateFlag) != 0,
                   .present = std::vector<bool>(fixed.n_present),
                   .payload_checksum = fixed.payload_checksum};
  for (int32_t& token : head.tokens) token = in.number<int32_t>();
  for (auto&& present : head.present) present = in.number<uint8_t>() != 0;
  if (in.number<uint64_t>() != checksum) return damaged("the head's checksum is wrong");
  if (fixed.config != config) return damaged("was written for another model or layout");
  // What follows can only be a mistake of who wrote it; a wrong size would make us read past an end.
  const int64_t n_pages = pages_for(std::ssize(head.tokens)) - head.first_page;
  const bool is_state_only = head.present.empty() && head.has_state;
  if (head.tokens.empty() || head.first_page > std::ssize(head.tokens)) return damaged("holds no text");
  if (!is_state_only && (n_pages <= 0 || n_pages * geometry.n_pools != std::ssize(head.present))) {
    return damaged("its pages don't fit its tokens");
  }
  if (fixed.payload_bytes != payload_bytes(head, geometry)) return damaged("its payload has another size");
  if (file_bytes != n_bytes + fixed.payload_bytes) {
    return damaged(fmt::format("is {} bytes, not {}", file_bytes, n_bytes + fixed.payload_bytes));
  }
  return head;
}

Checksum::Checksum() : state_(XXH3_createState()) {
  T9_CHECK(state_ != nullptr);
  XXH3_64bits_reset(state_);
}
Checksum::~Checksum() { XXH3_freeState(state_); }
void Checksum::add(std::span<const std::byte> bytes) { XXH3_64bits_update(state_, bytes.data(), bytes.size()); }
uint64_t Checksum::value() const { return XXH3_64bits_digest(state_); }

}  // namespace tempo9::kv::disk
