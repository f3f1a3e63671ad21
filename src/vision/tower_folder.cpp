#include "vision/tower_folder.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"

namespace tempo9::vision {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "tempo9-tower";
constexpr int64_t kMaxMetaBytes = 1 << 20;
constexpr int64_t kMaxNumber = int64_t{1} << 40;
constexpr int64_t kMaxPatches = 1 << 16;

// Reads fields of an object; the first mistake is kept, and from then on everything reads as empty.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) set_failure("must be an object");
  }
  const Json* find(const char* key) {
    if (failure_ || !object_.contains(key)) return nullptr;
    return &object_[key];
  }
  std::string text(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    set_failure(fmt::format("needs the text \"{}\"", key));
    return {};
  }
  int64_t number(const char* key, int64_t min, int64_t max = kMaxNumber) {
    const Json* value = find(key);
    if (value != nullptr && value->is_number_integer() && *value >= min && *value <= max) return value->get<int64_t>();
    set_failure(fmt::format("needs the number \"{}\", {} to {}", key, min, max));
    return 0;
  }
  Result<void> status() const {
    if (failure_) return fail(ErrorCode::kInvalidInput, *failure_);
    return {};
  }

 private:
  void set_failure(const std::string& message) {
    if (!failure_) failure_ = where_.empty() ? message : where_ + ": " + message;
  }
  const Json& object_;
  std::string where_;
  std::optional<std::string> failure_;
};

// What is at `path`, which is no tower, in words that help.
std::string what_is_there(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return "there is no such folder";
  if (!fs::is_directory(path, error)) {
    char magic[4] = {};
    std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
    if (std::string_view(magic, 4) != "GGUF") return "this is a file; a tower is a folder that holds tower_meta.json";
    return "this is a GGUF file; a tower is a folder, which `tempo9 tower export` makes from a projector";
  }
  std::string text = "there is no tower_meta.json in it";
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (fs::exists(entry.path() / kMetaFile, error)) {
      return text + fmt::format("; did you mean {}?", (path / entry.path().filename()).string());
    }
  }
  return text;
}

Result<Json> read_json(const fs::path& folder) {
  const fs::path path = folder / kMetaFile;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return fail(ErrorCode::kNotFound, fmt::format("no vision tower: {}", what_is_there(folder)));
  }
  if (fs::file_size(path, error) > kMaxMetaBytes) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: larger than {} bytes", kMetaFile, kMaxMetaBytes));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kIo, fmt::format("{}: can't be read", kMetaFile));
  Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded()) return fail(ErrorCode::kInvalidInput, fmt::format("{}: not JSON", kMetaFile));
  return json;
}

Result<void> check_version(Fields& fields) {
  const std::string format = fields.text("format");
  const int64_t version = fields.number("version", 1);
  T9_TRY_VOID(fields.status());
  if (format != kFormat) return fail(ErrorCode::kInvalidInput, fmt::format("format is \"{}\"", format));
  if (version == kTowerVersion) return {};
  return fail(ErrorCode::kUnsupported, fmt::format("version {} is not version {}, which this program reads; export the "
                                                   "tower again",
                                                   version, kTowerVersion));
}

Result<std::vector<Bucket>> parse_buckets(const Json* array) {
  if (array == nullptr || !array->is_array() || array->empty() || array->size() > 16) {
    return fail(ErrorCode::kInvalidInput, "needs the array \"buckets\" of 1 to 16");
  }
  std::vector<Bucket> buckets;
  for (const Json& element : *array) {
    Fields fields(element, fmt::format("buckets[{}]", buckets.size()));
    Bucket bucket{.name = fields.text("name"),
                  .n_patches = fields.number("patches", 1, kMaxPatches),
                  .n_tokens = fields.number("tokens", 1),
                  .n_pixels = fields.number("pixels", 1),
                  .coreml = element.contains("coreml") ? fields.text("coreml") : ""};
    T9_TRY_VOID(fields.status());
    if (!buckets.empty() && buckets.back().n_patches >= bucket.n_patches) {
      return fail(ErrorCode::kInvalidInput, "buckets are not in ascending order");
    }
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

// A name in the tower's folder and nowhere else.
bool is_package_name(const std::string& name) {
  return name.ends_with(".mlpackage") && name.find('/') == std::string::npos && !name.starts_with('.');
}

// Of packages that scripts/tower-coreml made.
Result<void> parse_coreml(const Json& json, TowerMeta& meta) {
  if (!json.contains("coreml")) return {};
  Fields fields(json["coreml"], "coreml");
  const std::string digest = fields.text("weights_digest");
  T9_TRY_VOID(fields.status());
  if (digest != meta.weights_digest) {
    return fail(ErrorCode::kInvalidInput,
                "coreml: its packages were made for other weights; run scripts/tower-coreml "
                "again");
  }
  const auto has_package = [](const Bucket& bucket) { return !bucket.coreml.empty(); };
  meta.has_checked_coreml = fields.find("gates") != nullptr && std::ranges::all_of(meta.buckets, has_package);
  return {};
}

Result<TowerMeta> parse_meta(const Json& json) {
  Fields fields(json, "");
  T9_TRY_VOID(check_version(fields));
  TowerMeta meta{.projector_type = fields.text("projector_type"),
                 .source = fields.text("source"),
                 .weights_digest = fields.text("weights_digest"),
                 .weights_bytes = fields.number("weights_bytes", 1),
                 .weights_type = fields.text("weights_type"),
                 .min_pixels = fields.number("min_pixels", 0),
                 .max_pixels = fields.number("max_pixels", 1),
                 .embedding_cols = fields.number("embedding_cols", 1),
                 .buckets = {}};
  T9_TRY_VOID(fields.status());
  T9_TRY(buckets, parse_buckets(fields.find("buckets")));
  meta.buckets = std::move(buckets);
  T9_TRY_VOID(parse_coreml(json, meta));
  return meta;
}

Result<void> check_weights(const fs::path& folder, const TowerMeta& meta) {
  const fs::path path = folder / kWeightsFile;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return fail(ErrorCode::kNotFound, fmt::format("{} is missing beside {}", kWeightsFile, kMetaFile));
  }
  const auto n_bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (n_bytes != meta.weights_bytes) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("{} has {} bytes, {} says {}", kWeightsFile, n_bytes, kMetaFile, meta.weights_bytes));
  }
  T9_TRY(digest, file_digest(path.string()));
  if (digest == meta.weights_digest) return {};
  return fail(ErrorCode::kInvalidInput,
              fmt::format("{} is not the file that {} was written for (digest {}, not {}); export the tower again",
                          kWeightsFile, kMetaFile, digest, meta.weights_digest));
}

Result<void> check_packages(const fs::path& folder, const TowerMeta& meta) {
  for (const Bucket& bucket : meta.buckets) {
    std::error_code error;
    if (bucket.coreml.empty()) continue;
    if (!is_package_name(bucket.coreml)) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("{}: bucket {}: \"{}\" is no package's name", kMetaFile, bucket.name, bucket.coreml));
    }
    if (!fs::is_directory(folder / bucket.coreml, error)) {
      return fail(ErrorCode::kNotFound, fmt::format("{} is missing beside {}", bucket.coreml, kMetaFile));
    }
  }
  return {};
}

Result<void> write_json(const fs::path& folder, const Json& json) {
  const fs::path path = folder / kMetaFile, partial = folder / (std::string(kMetaFile) + ".partial");
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  file.close();
  std::error_code error;
  if (file) fs::rename(partial, path, error);
  if (!file || error) return fail(ErrorCode::kIo, fmt::format("{}: can't be written", path.string()));
  return {};
}

Result<TowerMeta> read_checked(const fs::path& folder) {
  T9_TRY(json, read_json(folder));
  auto meta = parse_meta(json);
  if (!meta) return fail(std::move(meta).error().context(kMetaFile));
  T9_TRY_VOID(check_weights(folder, *meta));
  T9_TRY_VOID(check_packages(folder, *meta));
  return meta;
}

}  // namespace

Result<std::string> file_digest(const std::string& path) {
  T9_TRY(file, MappedFile::open(path));
  const XXH128_hash_t hash = XXH3_128bits(file.bytes().data(), file.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Result<void> write_meta(const std::string& folder, const TowerMeta& meta, const Json& gates) {
  Json buckets = Json::array();
  for (const Bucket& bucket : meta.buckets) {
    buckets.push_back({{"name", bucket.name},
                       {"patches", bucket.n_patches},
                       {"tokens", bucket.n_tokens},
                       {"pixels", bucket.n_pixels}});
  }
  const Json json = {{"format", kFormat},
                     {"version", kTowerVersion},
                     {"projector_type", meta.projector_type},
                     {"source", meta.source},
                     {"weights_digest", meta.weights_digest},
                     {"weights_bytes", meta.weights_bytes},
                     {"weights_type", meta.weights_type},
                     {"min_pixels", meta.min_pixels},
                     {"max_pixels", meta.max_pixels},
                     {"embedding_cols", meta.embedding_cols},
                     {"buckets", std::move(buckets)},
                     {"gates", gates}};
  return write_json(folder, json);
}

Result<TowerMeta> read_meta(const std::string& folder) {
  auto meta = read_checked(folder);
  if (!meta) return fail(std::move(meta).error().context(folder));
  return meta;
}

Result<void> keep_coreml_gates(const std::string& folder, const Json& gates) {
  T9_TRY(json, read_json(folder));
  json["coreml"]["gates"] = gates;
  return write_json(folder, json);
}

}  // namespace tempo9::vision
