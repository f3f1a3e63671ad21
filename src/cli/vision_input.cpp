#include "cli/vision_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/model.h"
#include "vision/tower.h"

namespace tempo9::cli {

namespace {

// Rows of images that are kept: at most so much, and this part of the budget.
constexpr size_t kMostCacheBytes = size_t{256} << 20;
constexpr size_t kCacheShare = 8;

Result<chat::ImageMarkup> check_model(const ServedModel& served) {
  auto markup = chat::find_image_markup(*served.tokenizer);
  if (!markup) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("--tower: {} takes no images: its vocabulary has no tokens for them", served.name));
  }
  return *std::move(markup);
}

}  // namespace

Result<VisionInput> open_vision(const ServeOptions& options, ServedModel& served) {
  VisionInput opened;
  const std::string& folder = options.tower;
  if (folder.empty()) return opened;
  T9_TRY(markup, check_model(served));
  auto tower = vision::Tower::open(folder, {.isa = options.isa});
  if (!tower) return fail(std::move(tower).error().context("--tower"));
  opened.encoder = *std::move(tower);
  const int64_t cols = models::embedding_cols(served.model.program);
  if (opened.encoder->embedding_cols() != cols) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("--tower {}: its rows have {} columns, {} takes {}: it is another model's tower", folder,
                            opened.encoder->embedding_cols(), served.name, cols));
  }
  size_t& budget = served.engine_options.memory_bytes;
  const size_t cache_bytes = std::min(kMostCacheBytes, budget / kCacheShare);
  budget -= cache_bytes;
  served.engine_options.takes_images = true;
  served.tower = opened.encoder->description();
  opened.service =
      std::make_unique<vision::ImageService>(*opened.encoder, vision::ImageServiceOptions{.cache_bytes = cache_bytes});
  opened.input.emplace(server::ImageInput{*opened.service, std::move(markup)});
  return opened;
}

}  // namespace tempo9::cli
