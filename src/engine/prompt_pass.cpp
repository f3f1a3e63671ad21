#include "engine/prompt_pass.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tempo9::engine {

void PromptPass::begin(StepPlan plan, std::span<const std::unique_ptr<Sequence>> sequences) {
  T9_CHECK(!is_open() && !plan.rows.empty());
  runner_.begin(plan, sequences);
  for (const StepPlan::Rows& rows : plan.rows) {
    Sequence& sequence = *sequences[static_cast<size_t>(rows.sequence)];
    sequence.pass_end = rows.end;
    sequences_.push_back(&sequence);
  }
  plan_ = std::move(plan);
  spent_ = {};
  joules_ = 0.0;
}

std::optional<PromptPass::Done> PromptPass::advance(Milliseconds budget,
                                                    std::span<const std::unique_ptr<Sequence>> sequences,
                                                    EnergyMeter* energy) {
  const Clock::time_point started = Clock::now();
  const double joules_before = energy != nullptr ? energy->joules() : 0.0;
  const std::optional<Runner::Output> output = runner_.advance(budget);
  if (energy != nullptr) joules_ += energy->joules() - joules_before;
  spent_ += Clock::now() - started;
  if (!output) return std::nullopt;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const auto place = std::ranges::find(sequences, sequences_[i], &std::unique_ptr<Sequence>::get);
    plan_.rows[i].sequence = static_cast<int32_t>(place - sequences.begin());
    sequences_[i]->pass_end = 0;
  }
  sequences_.clear();
  return Done{.plan = std::move(plan_),
              .output = *output,
              .spent = spent_,
              .longest_part = runner_.longest_part(),
              .joules = joules_};
}

}  // namespace tempo9::engine
