// Reads the header, metadata and tensor directory of one GGUF file from memory, with every check that hostile files ask
// for (spec gguf 1.6; the ids H1…T11 there are named beside the checks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"

namespace tempo9::gguf {

struct ParsedPart {
  uint32_t version = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // offsets are from the start of the file
};

// Limits on what a file may declare. All counts are first held against the bytes that are left, so a small file can't
// ask for much memory.
inline constexpr uint64_t kMaxPairs = 1'000'000;
inline constexpr uint64_t kMaxTensors = 1'000'000;
inline constexpr uint64_t kMaxStringBytes = 256u << 20;
inline constexpr uint64_t kMaxArrayElements = 1u << 26;
inline constexpr uint64_t kMaxMetadataBytes = 1u << 30;
inline constexpr uint64_t kDefaultAlignment = 32;

Result<ParsedPart> parse_gguf(std::span<const std::byte> bytes);

}  // namespace tempo9::gguf
