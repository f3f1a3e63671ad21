// The files of a vision tower (docs/tower-format.md): tower_meta.json, which says what the tower is, and weights.gguf,
// which the executors read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace tempo9::vision {

inline constexpr const char* kMetaFile = "tower_meta.json";
inline constexpr const char* kWeightsFile = "weights.gguf";
inline constexpr int64_t kTowerVersion = 1;

// A fixed shape that executors without dynamic shapes are compiled for: an image has at most so many patches, and is
// padded to exactly as many.
struct Bucket {
  std::string name;
  int64_t n_patches = 0;
  int64_t n_tokens = 0;  // of the language model
  int64_t n_pixels = 0;
  std::string coreml = {};  // its Core ML package, a folder beside the weights; empty: none
};

struct TowerMeta {
  std::string projector_type;
  std::string source;          // file name of the projector that the tower was made from
  std::string weights_digest;  // of weights.gguf
  int64_t weights_bytes = 0;
  std::string weights_type;  // of the large matrices: "Q8_0", "F16", "F32"
  int64_t min_pixels = 0;    // smaller images are scaled up
  int64_t max_pixels = 0;    // larger ones down
  int64_t embedding_cols = 0;
  std::vector<Bucket> buckets;  // ascending
  // Every bucket has a Core ML package, and they passed the gates on a Mac.
  bool has_checked_coreml = false;
};

// XXH3 of 128 bits, as 32 lower-case hex digits.
Result<std::string> file_digest(const std::string& path);

// `gates` is the report of the checks that the tower passed; it is kept for people and not read back.
Result<void> write_meta(const std::string& folder, const TowerMeta& meta, const nlohmann::ordered_json& gates);

// With all checks that Tower::open promises; the files of the folder agree with what comes back.
Result<TowerMeta> read_meta(const std::string& folder);

// Keeps the report of the gates that the folder's Core ML packages passed; from then on they are used.
Result<void> keep_coreml_gates(const std::string& folder, const nlohmann::ordered_json& gates);

}  // namespace tempo9::vision
