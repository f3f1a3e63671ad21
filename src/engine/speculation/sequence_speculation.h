// What speculation knows of one sequence (speculator.h).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/speculation/draft_control.h"
#include "engine/speculation/suffix_index.h"

namespace tempo9::engine {

struct SequenceSpeculation {
  SuffixIndex text;
  RequestControl control;
  // Hidden states of the slots from pending_begin on, which the draft block has not seen yet.
  int64_t pending_begin = 0;
  std::vector<float> pending;
};

}  // namespace tempo9::engine
