// How long steps take, learnt while they run, and how many rows of prompts fit beside decoding (spec performance
// section 8).
#pragma once

#include <cstdint>
#include <optional>

namespace tempo9::engine {

// The model is t = a + b * m: `a` a pass that only decodes, `b` what each prompt row adds to it. Both are exponential
// averages. A common least-squares fit would lose b while nothing but decoding is measured, and a common line would be
// off at both ends: a pass of many rows is bound by arithmetic, one of few rows by memory.
class StepTimes {
 public:
  void add(int64_t decode_rows, int64_t prefill_rows, double ms);

  // Prompt rows to run beside decoding so that the step takes at most max(50 ms, 2 * a): decoding keeps at least half
  // of the time once steps are long, and short steps are not cut into slices that no reader would notice. At least
  // kMinPrefillRows, since the pass has paid for reading the weights and a prompt must come to its end.
  int64_t prefill_rows_beside_decode() const;

  static constexpr double kTargetMs = 50.0;
  static constexpr double kMaxSlowdown = 2.0;
  static constexpr int64_t kMinPrefillRows = 8;
  static constexpr int64_t kFirstPrefillRows = 32;  // before anything was measured

 private:
  std::optional<double> decode_ms_;
  std::optional<double> row_ms_;
};

}  // namespace tempo9::engine
