// How the engine speculates: what the flags say, and what it tells about itself.
#pragma once

#include <array>
#include <cstdint>

#include "engine/speculation/acceptance.h"

namespace tempo9::engine {

struct SpeculationOptions {
  int64_t max_depth = 0;         // tokens drafted for a step of one sequence, at most kMaxDepth; 0: none
  double min_acceptance = 0.60;  // of a request's last drafts; below, it stops drafting for a while. 0: never
  // For tests and for measuring:
  bool always = false;       // as deep as can be, whatever it costs and however bad the drafts
  double wrong_share = 0.0;  // of the drafts, made wrong: a drafter that is bad
};

// Where drafts come from.
enum class Drafter : uint8_t { kText, kBlock };
inline constexpr size_t kDrafters = 2;
inline size_t index_of(Drafter drafter) { return static_cast<size_t>(drafter); }

struct DrafterStats {
  std::array<uint64_t, kMaxDepth> proposed{};  // by depth
  std::array<uint64_t, kMaxDepth> accepted{};
  uint64_t gate_closings = 0;
  int64_t gates_open = 0;  // of running requests
  int64_t gates_closed = 0;
};

struct SpeculationStats {
  std::array<DrafterStats, kDrafters> drafters;          // by Drafter
  std::array<uint64_t, kMaxDepth + 1> steps_by_depth{};  // steps of sequences that decode, by the tokens drafted
  // The fit of passes, ms: a + b * (rows, or experts that they choose over those of one row).
  double pass_ms = 0.0;
  double row_ms = 0.0;
  double median_error = 0.0;  // of its predictions, relative
  double draft_ms = 0.0;      // a pass of the draft block
};

}  // namespace tempo9::engine
