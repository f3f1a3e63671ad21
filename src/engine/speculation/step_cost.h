// What a pass over m rows costs, learnt while steps run (spec performance section 11).
#pragma once

#include <array>
#include <cstdint>

namespace tempo9::engine {

// Experts of a model's layers: rows that choose others bring their weights along.
struct ExpertCounts {
  int64_t n_experts = 0;  // 0: dense
  int64_t n_used = 0;     // by one row
};

// What passes of few rows take is kept by their number, since kernels change with it and time jumps where they do.
// Where little or nothing was measured, a line helps out: t(m) = a + b * u(m), by recursive least squares that forget.
// Dense: u(m) = m. With experts u(m) is the number of different experts that m rows can be expected to choose, over
// those that one chooses: E (1 - (1 - k/E)^m) / k.
class StepCost {
 public:
  explicit StepCost(ExpertCounts experts = {});

  void add(int64_t n_rows, double ms);
  // Before anything was measured: in units of a pass of one row.
  double predict(int64_t n_rows) const;
  bool is_measured() const { return n_samples_ > 0; }

  double base_ms() const { return base_; }
  double row_ms() const { return per_unit_; }
  // Median over the last samples of |prediction before the sample - sample| / sample.
  double median_error() const;

 private:
  // Passes of so many rows, at the speed of the machine that `speed_` follows.
  struct Count {
    double level = 0.0;
    double n = 0.0;  // of samples, as far as they are not forgotten
  };
  static constexpr int64_t kMaxCounted = 32;  // rows

  double units(int64_t n_rows) const;
  double line(int64_t n_rows) const { return base_ + per_unit_ * units(n_rows); }
  double beside_neighbours(int64_t n_rows) const;
  void fit_line(int64_t n_rows, double ms);
  void count(int64_t n_rows, double ms);

  ExpertCounts experts_;
  double base_;
  double per_unit_;
  std::array<std::array<double, 2>, 2> covariance_{};
  int64_t n_samples_ = 0;
  int64_t n_single_ = 0;                         // passes of one row since one of more
  double speed_ = 0.0;                           // ms of a level of 1
  std::array<Count, kMaxCounted + 1> counts_{};  // by rows
  std::array<double, 64> errors_{};              // relative, of the last samples, as a ring
};

}  // namespace tempo9::engine
