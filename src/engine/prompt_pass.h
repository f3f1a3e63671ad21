// A pass over prompts that goes on between the engine's steps, so that who decodes never waits for more than a part of
// it. It has working memory of its own. In which pieces a prompt is read changes no bit (spec performance section 2).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/energy_meter.h"
#include "engine/runner.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"

namespace tempo9::engine {

// Engine thread only. Its sequences keep their places in the cache while it is open, and Sequence::pass_end is set.
class PromptPass {
 public:
  explicit PromptPass(Runner runner) : runner_(std::move(runner)) {}

  bool is_open() const { return !sequences_.empty(); }
  std::span<Sequence* const> sequences() const { return sequences_; }

  // REQUIRES: is_open() is false; `plan` has rows, none of them drafts; pages are there for all.
  void begin(StepPlan plan, std::span<const std::unique_ptr<Sequence>> sequences);

  struct Done {
    StepPlan plan;  // for the sequences as they stand now
    Runner::Output output;
    Milliseconds spent{};
    Milliseconds longest_part{};
    double joules = 0.0;
  };
  // Goes on for about `budget`. When that completes it, it is open no more. `sequences`: all of the engine's, in any
  // order; `energy` may be null.
  std::optional<Done> advance(Milliseconds budget, std::span<const std::unique_ptr<Sequence>> sequences,
                              EnergyMeter* energy);
  // Leaves it where it is. pass_end stays set: the recurrent state of its sequences is torn.
  void abandon() { sequences_.clear(); }

 private:
  Runner runner_;
  StepPlan plan_;
  std::vector<Sequence*> sequences_;  // of the plan's rows; empty: it is not open
  Milliseconds spent_{};
  double joules_ = 0.0;
};

}  // namespace tempo9::engine
