// How many tokens to draft for each sequence: what brings the most tokens per second over all of them.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/speculation/acceptance.h"
#include "engine/speculation/options.h"
#include "engine/speculation/step_cost.h"

namespace tempo9::engine {

// A sequence that could have drafts.
struct DraftCandidate {
  int64_t max_depth = 0;
  const AcceptanceRates* rates = nullptr;
  bool needs_passes = false;  // its drafts come from a model: one pass for each depth, all sequences together
  Drafter drafter = Drafter::kText;
  double min_share = 0.0;  // of the drafts, expected to be right where there are more than one
  double may_lose_ms = std::numeric_limits<double>::infinity();  // for its drafts in this step
};

struct DraftCosts {
  const StepCost& step;
  double first_pass_ms = 0.0;  // of the draft model, with what it has to catch up on
  double next_pass_ms = 0.0;
  // For all drafts of a drafter in this step.
  std::array<double, kDrafters> may_lose_ms = {std::numeric_limits<double>::infinity(),
                                               std::numeric_limits<double>::infinity()};
};

struct DraftDepth {
  int64_t n = 0;
  double cost_ms = 0.0;  // of its rows and passes
};

// Tokens to draft for each candidate, at most `max_rows` in all. `n_rows` rows are in the next pass anyway, of which
// each decoding sequence's gives one token. Slot by slot the one that raises (tokens expected) / (time) most, as long
// as one does, or one of the next few: time jumps where kernels change (spec performance section 11). Nobody gets
// drafts that would cost more than may be lost if all were wrong.
std::vector<DraftDepth> choose_depths(std::span<const DraftCandidate> candidates, int64_t n_rows, int64_t n_decoding,
                                      int64_t max_rows, const DraftCosts& costs);

}  // namespace tempo9::engine
