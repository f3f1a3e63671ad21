#include "engine/step_times.h"

#include <algorithm>

namespace tempo9::engine {
namespace {

// Follows a change within some ten steps.
constexpr double kWeight = 0.1;
// A step that took many times longer was most likely disturbed by another process. It counts, but only so much.
constexpr double kMaxRatio = 3.0;
// A pass of prompts alone tells the price of a row only when reading the weights is a small part of it.
constexpr int64_t kManyRows = 32;

void average_in(std::optional<double>& average, double sample) {
  if (!average) {
    average = sample;
  } else {
    *average += kWeight * (std::min(sample, kMaxRatio * *average) - *average);
  }
}

}  // namespace

void StepTimes::add(int64_t decode_rows, int64_t prefill_rows, double ms) {
  if (prefill_rows == 0) {
    average_in(decode_ms_, ms);
  } else if (decode_rows == 0) {
    if (prefill_rows >= kManyRows) average_in(row_ms_, ms / static_cast<double>(prefill_rows));
  } else if (decode_ms_) {
    average_in(row_ms_, std::max(0.0, ms - *decode_ms_) / static_cast<double>(prefill_rows));
  }
}

int64_t StepTimes::prefill_rows_beside_decode() const {
  if (!decode_ms_ || !row_ms_) return kFirstPrefillRows;
  const double target = std::max(kTargetMs, kMaxSlowdown * *decode_ms_);
  constexpr double kEnough = 1e6;  // beyond any step
  const double rows = *row_ms_ > 0.0 ? std::min(kEnough, (target - *decode_ms_) / *row_ms_) : kEnough;
  return std::max(kMinPrefillRows, static_cast<int64_t>(rows));
}

}  // namespace tempo9::engine
