#include "vision/tower_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "vision/buckets.h"
#include "vision/preprocess.h"

namespace tempo9::vision {
namespace {

class TowerEncoder final : public ImageEncoder {
 public:
  TowerEncoder(std::unique_ptr<Executor> executor, std::vector<Bucket> buckets, std::string identity, bool pads)
      : executor_(std::move(executor)),
        buckets_(std::move(buckets)),
        identity_(std::move(identity)),
        pads_(pads || executor_->has_fixed_shapes()) {}

  Result<TokenGrid> grid_of(int32_t width, int32_t height) const override {
    T9_TRY(size, scaled_size(spec(), width, height));
    const TokenGrid grid = token_grid(spec(), size);
    if (find_bucket(buckets_, n_patches(grid)) != nullptr) return grid;
    return fail(ErrorCode::kInvalidInput,
                fmt::format("image of {} x {} pixels: {} patches are more than the tower takes ({})", width, height,
                            n_patches(grid), buckets_.back().n_patches));
  }

  int64_t embedding_cols() const override { return spec().embedding_cols(); }
  const std::string& identity() const override { return identity_; }
  std::string description() const override {
    const Residency residency = executor_->residency();
    return fmt::format("{}: {}", residency.executor, residency.detail);
  }

  Result<ImageEmbeddings> encode(const Image& image, std::stop_token stop) override {
    T9_TRY(grid, grid_of(image.width, image.height));
    if (std::ssize(image.rgb) != int64_t{image.width} * image.height * 3) {
      return fail(ErrorCode::kInvalidInput, "the image's pixels are not its width times its height");
    }
    const std::lock_guard lock(mutex_);
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "the image is not wanted any more");
    T9_TRY(size, scaled_size(spec(), image.width, image.height));
    const Patches patches =
        make_patches(spec(), image, size, pads_ ? find_bucket(buckets_, n_patches(grid))->n_patches : 0);
    T9_TRY(rows, executor_->run(patches, std::move(stop)));
    return in_order(patches, rows);
  }

 private:
  const TowerSpec& spec() const { return executor_->spec(); }
  int64_t n_patches(TokenGrid grid) const { return grid.n_tokens() * spec().merge * spec().merge; }

  // Row-major, without padding.
  ImageEmbeddings in_order(const Patches& patches, const std::vector<float>& rows) const {
    const auto cols = static_cast<size_t>(embedding_cols());
    ImageEmbeddings result{.grid = patches.grid, .cols = embedding_cols(), .rows = {}};
    result.rows.resize(patches.cells.size() * cols);
    for (size_t i = 0; i < patches.cells.size(); ++i) {
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(i * cols), cols,
                  result.rows.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(patches.cells[i]) * cols));
    }
    return result;
  }

  const std::unique_ptr<Executor> executor_;
  const std::vector<Bucket> buckets_;
  const std::string identity_;
  const bool pads_;
  std::mutex mutex_;  // of the executor
};

}  // namespace

std::unique_ptr<ImageEncoder> make_encoder(std::unique_ptr<Executor> executor, std::vector<Bucket> buckets,
                                           std::string identity, bool pads) {
  return std::make_unique<TowerEncoder>(std::move(executor), std::move(buckets), std::move(identity), pads);
}

}  // namespace tempo9::vision
