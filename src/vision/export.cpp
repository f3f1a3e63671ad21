#include "vision/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/thread_pool.h"
#include "vision/buckets.h"
#include "vision/coreml.h"
#include "vision/executor.h"
#include "vision/gates.h"
#include "vision/projector.h"
#include "vision/tower_encoder.h"
#include "vision/tower_folder.h"
#include "vision/weights_file.h"

namespace tempo9::vision {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A folder beside the wanted one, which becomes it or goes.
class PartialFolder {
 public:
  static Result<PartialFolder> create(const fs::path& wanted) {
    std::error_code error;
    if (fs::exists(wanted, error) && !fs::is_empty(wanted, error)) {
      return fail(ErrorCode::kInvalidInput, fmt::format("{}: exists already", wanted.string()));
    }
    PartialFolder folder(wanted);
    fs::remove_all(folder.path(), error);
    if (!fs::create_directories(folder.path(), error)) {
      return fail(ErrorCode::kIo, fmt::format("{}: can't be made: {}", folder.path().string(), error.message()));
    }
    return folder;
  }
  PartialFolder(PartialFolder&& other) noexcept : wanted_(std::exchange(other.wanted_, {})) {}
  PartialFolder& operator=(PartialFolder&&) = delete;
  ~PartialFolder() {
    std::error_code error;
    if (!wanted_.empty()) fs::remove_all(path(), error);
  }

  fs::path path() const { return fs::path(wanted_.string() + ".partial"); }
  Result<void> keep() {
    std::error_code error;
    fs::rename(path(), wanted_, error);
    if (error) return fail(ErrorCode::kIo, fmt::format("{}: can't be written: {}", wanted_.string(), error.message()));
    wanted_.clear();
    return {};
  }

 private:
  explicit PartialFolder(fs::path wanted) : wanted_(std::move(wanted)) {}
  fs::path wanted_;
};

void set_limits(const TowerMeta& meta, TowerSpec& spec) {
  spec.min_pixels = meta.min_pixels;
  spec.max_pixels = meta.max_pixels;
}

Result<TowerMeta> describe(const std::string& source, TowerSpec& spec, const fs::path& weights,
                           const ExportOptions& options) {
  T9_TRY(buckets, make_buckets(spec));
  spec.min_pixels = options.min_pixels.value_or(spec.min_pixels);
  spec.max_pixels = options.max_pixels.value_or(spec.max_pixels);
  limit_to_buckets(buckets, spec);
  const int64_t token_pixels = spec.patch * spec.merge * spec.patch * spec.merge;
  if (spec.resize == ResizeRule::kSmart && spec.max_pixels < token_pixels) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("at most {} pixels are less than one token, {}", spec.max_pixels, token_pixels));
  }
  T9_TRY(digest, file_digest(weights.string()));
  std::error_code error;
  return TowerMeta{.projector_type = spec.projector_type,
                   .source = fs::path(source).filename().string(),
                   .weights_digest = std::move(digest),
                   .weights_bytes = static_cast<int64_t>(fs::file_size(weights, error)),
                   .weights_type = std::string(tensor::dtype_name(options.weights)),
                   .min_pixels = spec.min_pixels,
                   .max_pixels = std::max<int64_t>(spec.max_pixels, token_pixels),
                   .embedding_cols = spec.embedding_cols(),
                   .buckets = reachable_buckets(buckets, spec)};
}

Json to_json(const Residency& residency) {
  return {{"executor", residency.executor},
          {"detail", residency.detail},
          {"native_layers", residency.n_native},
          {"fallback_layers", residency.n_fallback}};
}

Json to_json(const std::vector<BucketGate>& gates) {
  Json list = Json::array();
  for (const BucketGate& gate : gates) {
    list.push_back(
        {{"bucket", gate.bucket}, {"images", gate.n_images}, {"rows", gate.n_rows}, {"min_cosine", gate.min_cosine}});
  }
  return list;
}

int n_threads_of(const ExportOptions& options) { return options.n_threads > 0 ? options.n_threads : n_usable_cores(); }

// A tower as `executor` runs it against `source` in plain floats.
Result<Json> run_gates(Projector source, std::unique_ptr<Executor> executor, const TowerMeta& meta,
                       const ExportOptions& options) {
  const Residency residency = executor->residency();
  T9_TRY_VOID(check_residency(residency));
  T9_TRY(exact_executor, make_cpu_executor(std::move(source), {.n_threads = n_threads_of(options), .is_exact = true}));
  const TowerSpec& spec = exact_executor->spec();
  const auto tower = make_encoder(std::move(executor), meta.buckets, "tower");
  const auto exact = make_encoder(std::move(exact_executor), meta.buckets, "exact", true);
  T9_TRY(buckets, check_buckets(*tower, *exact, spec, meta.buckets));
  Json report = {{"residency", to_json(residency)}, {"buckets", to_json(buckets)}};
  if (options.end_to_end) {
    T9_TRY(answer, options.end_to_end(*tower, *exact));
    report["end_to_end"] = std::move(answer);
  } else {
    report["end_to_end"] = "not run: no language model was given";
  }
  return report;
}

// The tower as it lies in its folder.
Result<Projector> open_exported(const fs::path& folder, const TowerMeta& meta) {
  T9_TRY(projector, Projector::open((folder / kWeightsFile).string()));
  set_limits(meta, projector.spec);
  return projector;
}

bool has_packages(const TowerMeta& meta) {
  return std::ranges::all_of(meta.buckets, [](const Bucket& bucket) { return !bucket.coreml.empty(); });
}

Result<Json> export_into(const std::string& path, const fs::path& folder, const ExportOptions& options) {
  T9_TRY(projector, Projector::open(path));
  const fs::path weights = folder / kWeightsFile;
  T9_TRY_VOID(write_weights(projector, options.weights, weights.string()));
  T9_TRY(meta, describe(path, projector.spec, weights, options));
  T9_TRY(exported, open_exported(folder, meta));
  T9_TRY(executor, make_cpu_executor(std::move(exported), {.n_threads = n_threads_of(options)}));
  set_limits(meta, projector.spec);
  T9_TRY(gates, run_gates(std::move(projector), std::move(executor), meta, options));
  T9_TRY_VOID(write_meta(folder.string(), meta, gates));
  return gates;
}

}  // namespace

Result<Json> export_tower(const std::string& projector, const std::string& folder, const ExportOptions& options) {
  // A slash at the end names the same folder.
  fs::path wanted = fs::path(folder).lexically_normal();
  if (!wanted.has_filename()) wanted = wanted.parent_path();
  T9_TRY(partial, PartialFolder::create(wanted));
  T9_TRY(gates, export_into(projector, partial.path(), options));
  T9_TRY_VOID(partial.keep());
  return gates;
}

Result<Json> check_tower(const std::string& folder, const ExportOptions& options) {
  T9_TRY(meta, read_meta(folder));
  T9_TRY(source, open_exported(folder, meta));
  T9_TRY(projector, open_exported(folder, meta));
  const bool is_coreml = has_coreml() && has_packages(meta);
  T9_TRY(executor, is_coreml ? make_coreml_executor(std::move(projector), folder, meta)
                             : make_cpu_executor(std::move(projector), {.n_threads = n_threads_of(options)}));
  T9_TRY(gates, run_gates(std::move(source), std::move(executor), meta, options));
  if (is_coreml) T9_TRY_VOID(keep_coreml_gates(folder, gates));
  return gates;
}

}  // namespace tempo9::vision
