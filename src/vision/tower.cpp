#include "vision/tower.h"

#include <fmt/format.h>

#include <filesystem>

#include "vision/buckets.h"
#include "vision/coreml.h"
#include "vision/executor.h"
#include "vision/projector.h"
#include "vision/tower_encoder.h"
#include "vision/tower_folder.h"

namespace tempo9::vision {
namespace {

Result<void> check_agreement(const TowerMeta& meta, const TowerSpec& spec) {
  if (meta.projector_type != spec.projector_type || meta.embedding_cols != spec.embedding_cols()) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("{} says {} with rows of {}, {} holds {} with rows of {}", kMetaFile, meta.projector_type,
                            meta.embedding_cols, kWeightsFile, spec.projector_type, spec.embedding_cols()));
  }
  const int64_t cell = spec.patch * spec.merge;
  if (meta.max_pixels >= cell * cell && meta.min_pixels <= meta.max_pixels) return {};
  return fail(ErrorCode::kInvalidInput, fmt::format("{}: {} to {} pixels is no range for tokens of {} pixels a side",
                                                    kMetaFile, meta.min_pixels, meta.max_pixels, cell));
}

Result<std::unique_ptr<ImageEncoder>> open_checked(const std::string& folder, const TowerMeta& meta,
                                                   const TowerOptions& options) {
  T9_TRY(projector, Projector::open((std::filesystem::path(folder) / kWeightsFile).string()));
  T9_TRY_VOID(check_agreement(meta, projector.spec));
  projector.spec.min_pixels = options.min_pixels.value_or(meta.min_pixels);
  projector.spec.max_pixels = meta.max_pixels;
  limit_to_buckets(meta.buckets, projector.spec);
  const bool is_coreml = has_coreml() && meta.has_checked_coreml && options.isa.empty();
  std::string identity = fmt::format("tower:{}:{}:{}:{}{}", kTowerVersion, meta.weights_digest,
                                     projector.spec.min_pixels, projector.spec.max_pixels, is_coreml ? ":coreml" : "");
  T9_TRY(executor, is_coreml
                       ? make_coreml_executor(std::move(projector), folder, meta)
                       : make_cpu_executor(std::move(projector), {.n_threads = options.n_threads, .isa = options.isa}));
  return make_encoder(std::move(executor), meta.buckets, std::move(identity));
}

}  // namespace

Result<std::unique_ptr<ImageEncoder>> Tower::open(const std::string& folder, const TowerOptions& options) {
  T9_TRY(meta, read_meta(folder));
  auto encoder = open_checked(folder, meta, options);
  if (!encoder) return fail(std::move(encoder).error().context(folder));
  return encoder;
}

}  // namespace tempo9::vision
