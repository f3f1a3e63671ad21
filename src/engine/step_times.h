// How long steps take, learnt while they run, and how many rows of prompts fit beside decoding (spec performance
// section 8).
#pragma once

#include <cstdint>
#include <optional>

#include "engine/step_plan.h"

namespace tempo9::engine {

// Who wants the next step's time.
struct Demand {
  int64_t n_prompts = 0;   // sequences whose prompt is not read yet
  int64_t n_decoding = 0;  // sequences that miss one token only
};

// The model is t = a + b * m: `a` a pass that only decodes, `b` what each prompt row adds to it, among few rows (beside
// those that decode) and among many (in a prompt pass). All are exponential averages. A common least-squares fit would
// lose b while nothing but decoding is measured, and a common line would be off at both ends: a pass of many rows is
// bound by arithmetic, one of few rows by memory.
class StepTimes {
 public:
  static constexpr double kTargetMs = 50.0;
  static constexpr double kMinSlowdown = 2.0;
  static constexpr double kMaxSlowdown = 4.0;

  // 0: prompts get as few rows, and prompt passes as few parts, as can be.
  explicit StepTimes(double target_ms = kTargetMs) : target_ms_(target_ms) {}

  void add(int64_t decode_rows, int64_t prefill_rows, double ms);
  // The longest part of a prompt pass of so many rows.
  void add_part(int64_t rows, double ms);

  // What a step may take: max(50 ms, k * a), k = 2 to 4. Those that decode together need `a`, so with k = 2 prompts get
  // half of the time; when more wait for their prompts than decode, they get as large a share of it as they are of all,
  // up to three quarters. Short steps are not cut into slices that no reader would notice.
  double step_ms(const Demand& demand) const;
  // When a step that reads prompts is planned to end: before that, since what it takes is a guess.
  double planned_ms(const Demand& demand) const { return kPlanned * step_ms(demand); }

  // Rows that fit a step, and of a prompt pass so many that its longest part fits beside a decoding step. At least
  // kMinPrefillRows and kMinPassRows, since each has paid for reading the weights and a prompt must come to its end.
  PrefillRows prefill_rows(const Demand& demand) const;

  static constexpr double kPlanned = 0.9;
  static constexpr int64_t kMinPrefillRows = 8;
  static constexpr int64_t kMinPassRows = 64;
  static constexpr int64_t kSomeSteps = 4;
  // Before anything was measured.
  static constexpr int64_t kFirstPrefillRows = 32;
  static constexpr int64_t kFirstPassRows = 256;

 private:
  // Prompts of so many rows cost less in a pass of their own, which reads the weights once more, than beside others.
  std::optional<double> rows_worth_a_pass() const;

  const double target_ms_;
  std::optional<double> decode_ms_;
  std::optional<double> row_ms_;       // of a row beside those that decode
  std::optional<double> pass_row_ms_;  // of a row in a pass of many, beyond what decoding takes
  std::optional<double> part_row_ms_;  // what the longest part of a prompt pass takes per row
};

}  // namespace tempo9::engine
