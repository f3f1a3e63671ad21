#include "vision/compiled_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tempo9::vision {
namespace {

class CompiledExecutor final : public Executor {
 public:
  CompiledExecutor(Projector projector, std::vector<BucketNetwork> networks, Residency residency)
      : projector_(std::move(projector)), networks_(std::move(networks)), residency_(std::move(residency)) {}

  const TowerSpec& spec() const override { return projector_.spec; }
  Residency residency() const override { return residency_; }
  bool has_fixed_shapes() const override { return true; }

  Result<std::vector<float>> run(const Patches& patches, std::stop_token stop) override {
    const auto bucket = std::ranges::find(networks_, patches.n_rows, &BucketNetwork::n_patches);
    T9_CHECK(bucket != networks_.end());
    auto rows = stop.stop_requested() ? cancelled() : bucket->network->run(network_inputs(spec(), patches));
    if (!rows) return rows;
    if (stop.stop_requested()) return cancelled();
    const int64_t n = patches.n_rows / (spec().merge * spec().merge) * spec().embedding_cols();
    if (std::ssize(*rows) == n) return rows;
    return fail(ErrorCode::kInternal,
                fmt::format("{} gave {} values instead of {}", residency_.executor, rows->size(), n));
  }

 private:
  static Result<std::vector<float>> cancelled() {
    return fail(ErrorCode::kCancelled, "the image is not wanted any more");
  }

  const Projector projector_;
  const std::vector<BucketNetwork> networks_;
  const Residency residency_;
};

}  // namespace

std::unique_ptr<Executor> make_compiled_executor(Projector projector, std::vector<BucketNetwork> networks,
                                                 Residency residency) {
  return std::make_unique<CompiledExecutor>(std::move(projector), std::move(networks), std::move(residency));
}

}  // namespace tempo9::vision
