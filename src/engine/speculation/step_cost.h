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

// t(m) = a + b * u(m), by recursive least squares that forget. Dense: u(m) = m. With experts u(m) is the number of
// different experts that m rows can be expected to choose, over those that one chooses: E (1 - (1 - k/E)^m) / k.
class StepCost {
 public:
  explicit StepCost(ExpertCounts experts = {});

  void add(int64_t n_rows, double ms);
  // Before anything was measured: in units of a pass of one row.
  double predict(int64_t n_rows) const { return base_ + per_unit_ * units(n_rows); }
  bool is_measured() const { return n_samples_ > 0; }

  double base_ms() const { return base_; }
  double row_ms() const { return per_unit_; }
  // Median over the last samples of |prediction before the sample - sample| / sample.
  double median_error() const;

 private:
  double units(int64_t n_rows) const;

  ExpertCounts experts_;
  double base_;
  double per_unit_;
  std::array<std::array<double, 2>, 2> covariance_{};
  int64_t n_samples_ = 0;
  int64_t n_single_ = 0;             // passes of one row since one of more
  std::array<double, 64> errors_{};  // relative, of the last samples, as a ring
};

}  // namespace tempo9::engine
