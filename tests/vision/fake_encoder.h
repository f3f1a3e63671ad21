// An encoder whose rows are made up of an image's pixels: equal images, and only those, have equal rows.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <string>

#include "vision/encoder.h"

namespace tempo9::testing {

class FakeEncoder : public vision::ImageEncoder {
 public:
  explicit FakeEncoder(int64_t cols = 4, std::string identity = "fake") : cols_(cols), identity_(std::move(identity)) {}

  Result<vision::TokenGrid> grid_of(int32_t width, int32_t height) const override {
    if (std::max(width, height) > 50 * std::min(width, height)) return fail(ErrorCode::kInvalidInput, "too thin");
    return vision::TokenGrid{.height = (height + 3) / 4, .width = (width + 3) / 4};
  }
  int64_t embedding_cols() const override { return cols_; }
  const std::string& identity() const override { return identity_; }

  Result<vision::ImageEmbeddings> encode(const vision::Image& image, std::stop_token stop) override {
    std::unique_lock lock(mutex_);
    ++n_begun;
    changed_.notify_all();
    changed_.wait(lock, stop, [this] { return !is_held_; });
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    if (fails) return fail(ErrorCode::kInternal, "the tower fell");
    ++n_encoded;
    vision::ImageEmbeddings result{.grid = *grid_of(image.width, image.height), .cols = cols_};
    result.rows.resize(static_cast<size_t>(result.grid.n_tokens() * cols_));
    uint32_t state = std::accumulate(image.rgb.begin(), image.rgb.end(), uint32_t{17},
                                     [](uint32_t hash, uint8_t byte) { return hash * 31 + byte; });
    for (float& value : result.rows) {
      state = state * 1664525 + 1013904223;
      value = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1.0f;
    }
    return result;
  }

  // While it is held, encodings wait.
  void hold(bool is_held) {
    const std::lock_guard lock(mutex_);
    is_held_ = is_held;
    changed_.notify_all();
  }
  // False when fewer have begun for a long time.
  bool wait_begun(int n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return n_begun >= n; });
  }

  std::atomic<int> n_begun = 0;
  std::atomic<int> n_encoded = 0;
  std::atomic<bool> fails = false;

 private:
  const int64_t cols_;
  const std::string identity_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_held_ = false;
};

}  // namespace tempo9::testing
