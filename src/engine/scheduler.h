// Decides what runs in a step. Pure: numbers in, plan out. It touches neither tensors, clocks nor the cache.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/step_plan.h"
#include "tensor/views.h"

namespace tempo9::engine {

// What the scheduler needs to know about an admitted sequence.
struct SequenceState {
  int64_t n_tokens = 0;    // prompt and answer so far
  int64_t n_computed = 0;  // of them in the cache; 0 when paused
  int64_t n_reserved = 0;  // tokens to set pages aside for; what it needs beyond that is taken on demand
  uint64_t order = 0;      // of admission: lower is older
  double waited_ms = 0.0;  // since it was submitted
  bool active = false;     // has a place in the cache; false while paused
  bool blocked = false;    // its reader is behind: no rows
  bool waits = false;      // for a prompt that another reads: no rows of its own prompt
  int64_t n_drafts = 0;    // rows that it would like to have verified once it misses one token only
  int64_t stop = 0;        // no step reads its prompt across this token; 0: there is none
  int64_t pass_end = 0;    // its rows up to this token are in a prompt pass that is open; 0: none are
  // Of its prompt, ascending: no step ends inside of these. REQUIRES: each at most max_step_rows - max_batch long, and
  // no `stop` inside.
  std::span<const tensor::IndexRange> whole = {};
};

struct SchedulerLimits {
  int64_t max_batch = 0;      // places in the cache; as many sequences again may be blocked
  int64_t max_step_rows = 0;  // REQUIRES: >= max_batch
  int64_t pages_total = 0;    // REQUIRES: enough for any one sequence alone
};

// Pages are counted as if every layer kept every token: an upper bound with sliding layers, exact without.
//
// When pages run out, a sequence that needs some takes them from blocked sequences first, then from those younger than
// itself, the youngest first. These pause: they lose their pages and compute their tokens again later, and the numeric
// contract makes the answer the same. Who is in an open prompt pass keeps its pages until that ends. The oldest
// sequence that can run finds pages at the latest then, so the engine never stands still. Nor does a reader that is
// behind hold up others: when all places are taken, a blocked sequence pauses for one that can run.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits) : limits_(limits) {}

  // A new sequence that reserves `n_reserved` tokens may start beside `sequences`. Never while one is paused: its turn
  // is first. Pages and places of blocked sequences count as free, since they can be taken.
  bool admits(std::span<const SequenceState> sequences, int64_t n_reserved) const;

  // Who has to pause first so that an admitted one finds a place; nobody while one is free.
  std::optional<int32_t> gives_way(std::span<const SequenceState> sequences) const;

  // Every sequence that decodes gets its row, then its drafts where rows and free pages are left: nobody pauses for
  // them. The rest goes to the prompt with the fewest tokens left, where each 250 ms waited counts as one slice less,
  // within `prefill`; what has to be read whole is, and goes beyond that where it must. Prompts that are too long for a
  // step share a prompt pass. While one is open the others of these wait, and short ones whose turn is after it.
  Plans plan(std::span<const SequenceState> sequences, const PrefillRows& prefill) const;

 private:
  SchedulerLimits limits_;
};

}  // namespace tempo9::engine
