// Decides how many tokens to draft, and bounds what that can cost. Knows numbers only: neither tokens nor clocks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/speculation/acceptance.h"
#include "engine/speculation/depths.h"
#include "engine/speculation/draft_account.h"
#include "engine/speculation/options.h"
#include "engine/speculation/step_cost.h"

namespace tempo9::engine {

// What is learnt of one request.
struct RequestControl {
  std::array<AcceptanceRates, kDrafters> rates;
  std::array<AcceptanceGate, kDrafters> gates;
  DraftAccount account;
  // The drafts that wait to be verified. In units of a pass without drafts: what they cost, and what each is worth that
  // is right.
  Drafter drafted_by = Drafter::kText;
  int64_t n_planned = 0;
  double cost_passes = 0.0;
  double token_passes = 0.0;
};

class DraftControl {
 public:
  DraftControl(const SpeculationOptions& options, ExpertCounts experts);

  RequestControl begin_request();

  // A sequence that decodes and could have drafts.
  struct Candidate {
    RequestControl* request = nullptr;
    Drafter drafter = Drafter::kText;
    int64_t limit = 0;  // at most depth_limit(), and what the drafter has
    int64_t depth = 0;  // set by choose()
  };
  // Tokens that the drafter may be asked for, after `n_answer` tokens of the answer.
  int64_t depth_limit(const RequestControl& request, Drafter drafter, int64_t n_answer) const;
  // The text's drafts are rather worse than the block's would be.
  bool prefers_block(const RequestControl& request, int64_t n_answer) const;
  // Sets the depths for the next step, which has a row of each candidate.
  void choose(std::span<Candidate> candidates, int64_t max_rows);

  // The first `n_accepted` of the `n_drafts` drafts of a step were right; also where none was left of those planned.
  void verified(RequestControl& request, int64_t n_drafts, int64_t n_accepted, int64_t n_answer);

  // A step without rows of prompts took so long; a pass of the draft block, the first of a step or a further one.
  void measure(int64_t n_rows, double ms);
  void measure_first_draft(double ms);
  void measure_next_draft(double ms);

  const StepCost& cost() const { return cost_; }
  // 0 until measured.
  double next_draft_ms() const { return next_pass_ms_.value_or(0.0); }
  const DraftAccount& account(Drafter drafter) const { return accounts_[static_cast<size_t>(drafter)]; }

 private:
  // The plan of the last choose(), to be corrected by what its step really took.
  struct Planned {
    int64_t n_decoding = 0;
    int64_t n_rows = 0;
    double rows_ms = 0.0;                       // of all drafts
    std::array<double, kDrafters> shares = {};  // of it
  };

  double first_draft_ms(double pass_ms) const;
  void probe(std::span<const DraftCandidate> choices, const DraftCosts& costs, int64_t n_decoding, int64_t max_rows,
             std::vector<DraftDepth>& depths) const;

  const SpeculationOptions options_;
  StepCost cost_;
  std::optional<double> first_pass_ms_;
  std::optional<double> next_pass_ms_;
  std::array<AcceptanceRates, kDrafters> rates_;  // of all requests
  std::array<DraftAccount, kDrafters> accounts_;  // of all requests
  Planned planned_;
};

}  // namespace tempo9::engine
