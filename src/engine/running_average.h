// Averages of times that follow a change within some ten samples.
#pragma once

#include <algorithm>
#include <optional>

namespace tempo9::engine {

inline constexpr double kAverageWeight = 0.1;
// What took many times longer was most likely disturbed by another process. It counts, but only so much.
inline constexpr double kMaxRatioToAverage = 3.0;

// The first sample begins the average, also after one of 0, which no ratio leads away from.
inline void average_in(std::optional<double>& average, double sample, double falling_weight = kAverageWeight) {
  if (average.value_or(0.0) == 0.0) {
    average = sample;
    return;
  }
  const double weight = sample < *average ? falling_weight : kAverageWeight;
  *average += weight * (std::min(sample, kMaxRatioToAverage * *average) - *average);
}

}  // namespace tempo9::engine
