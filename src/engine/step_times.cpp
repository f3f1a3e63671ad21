#include "engine/step_times.h"

#include <algorithm>

#include "engine/running_average.h"

namespace tempo9::engine {
namespace {

// Who else computes, such as an image's tower, only makes a step longer: when it has ended, that is to be forgotten.
constexpr double kFallingWeight = 0.5;
// A pass of prompts alone tells the price of a row only when reading the weights is a small part of it.
constexpr int64_t kManyRows = 32;
constexpr double kEnough = 1e6;  // rows, beyond any step

}  // namespace

void StepTimes::add(int64_t decode_rows, int64_t prefill_rows, double ms) {
  if (prefill_rows == 0) {
    average_in(decode_ms_, ms, kFallingWeight);
  } else if (decode_rows == 0) {
    const double rows_ms = std::max(0.0, ms - decode_ms_.value_or(0.0));
    if (prefill_rows >= kManyRows) average_in(pass_row_ms_, rows_ms / static_cast<double>(prefill_rows));
  } else if (decode_ms_) {
    average_in(row_ms_, std::max(0.0, ms - *decode_ms_) / static_cast<double>(prefill_rows));
  }
}

// What attention takes grows with each pass of a long prompt, and there are few of them: the last one tells most.
void StepTimes::add_part(int64_t rows, double ms) {
  const double sample = ms / static_cast<double>(rows);
  part_row_ms_ = part_row_ms_ ? std::min(sample, kMaxRatioToAverage * *part_row_ms_) : sample;
}

double StepTimes::step_ms(const Demand& demand) const {
  if (target_ms_ == 0.0) return 0.0;
  double slowdown = kMinSlowdown;  // also with nobody decoding: who comes in meanwhile waits for the step's end
  if (demand.n_decoding > 0) {
    const double all_by_decoding = 1.0 + static_cast<double>(demand.n_prompts) / static_cast<double>(demand.n_decoding);
    slowdown = std::clamp(all_by_decoding, kMinSlowdown, kMaxSlowdown);
  }
  return std::max(target_ms_, slowdown * decode_ms_.value_or(0.0));
}

std::optional<double> StepTimes::rows_worth_a_pass() const {
  if (!decode_ms_ || !row_ms_ || !pass_row_ms_ || *row_ms_ <= *pass_row_ms_) return std::nullopt;
  return *decode_ms_ / (*row_ms_ - *pass_row_ms_);
}

PrefillRows StepTimes::prefill_rows(const Demand& demand) const {
  const auto rows_in = [](double ms, std::optional<double> row_ms, int64_t first, int64_t least) {
    if (!row_ms) return first;
    if (ms <= 0.0) return least;
    const double rows = *row_ms > 0.0 ? std::min(kEnough, ms / *row_ms) : kEnough;
    return std::max(least, static_cast<int64_t>(rows));
  };
  const double beside_ms = planned_ms(demand) - decode_ms_.value_or(0.0);
  const auto row_ms = row_ms_ ? row_ms_ : pass_row_ms_;
  const int64_t fitting = rows_in(beside_ms, decode_ms_ ? row_ms : std::nullopt, kFirstPrefillRows, 0);
  const auto worth_a_pass = static_cast<int64_t>(std::min(kEnough, rows_worth_a_pass().value_or(kEnough)));
  return {.beside_decode = std::max(fitting, kMinPrefillRows),
          .alone = rows_in(planned_ms(demand), row_ms, kFirstPrefillRows, kMinPrefillRows),
          .behind = rows_in(beside_ms, part_row_ms_, kFirstPassRows, kMinPassRows),
          .in_some_steps = fitting < kMinPrefillRows ? 0 : std::min(kSomeSteps * fitting, worth_a_pass)};
}

}  // namespace tempo9::engine
