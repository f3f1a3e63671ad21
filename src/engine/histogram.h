// Counts of values by their size, as Prometheus' histograms have them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace tempo9::engine {

// Plain data. `bounds` ascend, are at most kMaxBounds, and outlive it.
struct Histogram {
  static constexpr size_t kMaxBounds = 16;

  std::span<const double> bounds;
  std::array<uint64_t, kMaxBounds + 1>
      counts{};  // of values up to bounds[i] and above the bound before; last: above all
  double sum = 0.0;

  void add(double value) {
    ++counts[static_cast<size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin())];
    sum += value;
  }
};

// Seconds: from what a prompt in the cache takes to what a long one takes on a slow machine.
inline constexpr std::array kWaitBounds = {0.005, 0.01, 0.025, 0.05, 0.1,  0.25,  0.5,  1.0,
                                           2.5,   5.0,  10.0,  30.0, 60.0, 120.0, 300.0};
// Seconds between two tokens.
inline constexpr std::array kGapBounds = {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03,
                                          0.05,  0.075,  0.1,   0.25,   0.5,  1.0,   2.5};
static_assert(kWaitBounds.size() <= Histogram::kMaxBounds && kGapBounds.size() <= Histogram::kMaxBounds);

}  // namespace tempo9::engine
