// How many tokens to draft for each sequence: what brings the most tokens per second over all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculation/acceptance.h"
#include "engine/speculation/step_cost.h"

namespace tempo9::engine {

// A sequence that could have drafts.
struct DraftCandidate {
  int64_t max_depth = 0;
  const AcceptanceRates* rates = nullptr;
  bool needs_passes = false;  // its drafts come from a model: one pass for each depth, all sequences together
};

struct DraftCosts {
  const StepCost& step;
  double first_pass_ms = 0.0;  // of the draft model, with what it has to catch up on
  double next_pass_ms = 0.0;
};

// Tokens to draft for each candidate, at most `max_rows` in all. `n_rows` rows are in the next pass anyway, of which
// each decoding sequence's gives one token. Slot by slot the one that raises (tokens expected) / (time) most, as long
// as one does: chances fall with the depth and costs do not, so looking one slot ahead is enough (spec performance
// section 11).
std::vector<int64_t> choose_depths(std::span<const DraftCandidate> candidates, int64_t n_rows, int64_t n_decoding,
                                   int64_t max_rows, const DraftCosts& costs);

}  // namespace tempo9::engine
