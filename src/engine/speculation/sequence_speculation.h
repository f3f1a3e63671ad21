// What speculation knows of one sequence (speculator.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/speculation/acceptance.h"
#include "engine/speculation/options.h"
#include "engine/speculation/suffix_index.h"

namespace tempo9::engine {

struct SequenceSpeculation {
  SuffixIndex text;
  std::array<AcceptanceRates, kDrafters> rates;
  std::array<AcceptanceGate, kDrafters> gates;
  Drafter drafted_by = Drafter::kText;  // the drafts that wait to be verified
  // Hidden states of the slots from pending_begin on, which the draft block has not seen yet.
  int64_t pending_begin = 0;
  std::vector<float> pending;
};

}  // namespace tempo9::engine
