#include "engine/speculation/draft_control.h"

#include <algorithm>

#include "engine/running_average.h"

namespace tempo9::engine {
namespace {

// In the first tokens of an answer it is not known yet how it goes: only drafters that are right most of the time.
constexpr int64_t kEarlyTokens = 16;
constexpr double kEarlyAcceptance = 0.75;
// Above what the gate wants of all drafts: deep ones, of which few are right, would close it.
constexpr double kShareMargin = 0.05;
// The block's drafts take passes, the text's none.
constexpr double kBlockBetter = 0.1;

// What may be lost, in passes: all requests by each drafter, and each request.
constexpr double kStart = 4.0;
constexpr double kShare = 0.005;
constexpr double kMost = 8.0;
constexpr double kRequestStart = 1.5;
constexpr double kRequestShare = 0.01;
// Of what a request may lose, by one step: so that one bad step does not end it.
constexpr double kStepShare = 0.5;
// A step that took so many times as long as expected was disturbed by another process.
constexpr double kDisturbed = 2.0;
// Drafts that are not expected to pay are tried, one at a time, as long as so many passes more may be lost.
constexpr double kProbeReserve = 2.0;

// Of a pass, until measured: what one of the block takes.
constexpr double kFirstDraft = 0.15;

}  // namespace

DraftControl::DraftControl(const SpeculationOptions& options, ExpertCounts experts)
    : options_(options), cost_(experts), accounts_{DraftAccount(kStart, kMost), DraftAccount(kStart, kMost)} {}

RequestControl DraftControl::begin_request() {
  for (AcceptanceRates& rates : rates_) rates.forget();
  const AcceptanceGate gate(options_.always ? 0.0 : options_.min_acceptance);
  return {.rates = {rates_[0].for_new_text(), rates_[1].for_new_text()},
          .gates = {gate, gate},
          .account = DraftAccount(kRequestStart, kMost)};
}

int64_t DraftControl::depth_limit(const RequestControl& request, Drafter drafter, int64_t n_answer) const {
  if (options_.always) return options_.max_depth;
  const bool is_early = n_answer < kEarlyTokens;
  if (is_early && request.rates[index_of(drafter)].at(0) <= kEarlyAcceptance) return 0;
  return std::min(options_.max_depth, request.gates[index_of(drafter)].max_depth(n_answer));
}

bool DraftControl::prefers_block(const RequestControl& request, int64_t n_answer) const {
  return !options_.always && depth_limit(request, Drafter::kBlock, n_answer) > 0 &&
         request.rates[index_of(Drafter::kText)].at(0) + kBlockBetter < request.rates[index_of(Drafter::kBlock)].at(0);
}

void DraftControl::choose(std::span<Candidate> candidates, int64_t max_rows) {
  if (candidates.empty()) return;
  const auto n_decoding = static_cast<int64_t>(candidates.size());
  const double pass_ms = cost_.predict(n_decoding);
  for (DraftAccount& account : accounts_) account.allow(1.0, kShare);
  std::vector<DraftCandidate> choices;
  for (const Candidate& candidate : candidates) {
    candidate.request->account.allow(1.0 / static_cast<double>(n_decoding), kRequestShare);
    choices.push_back({.max_depth = std::max<int64_t>(candidate.limit, 0),
                       .rates = &candidate.request->rates[index_of(candidate.drafter)],
                       .needs_passes = candidate.drafter == Drafter::kBlock,
                       .drafter = candidate.drafter,
                       .min_share = options_.min_acceptance > 0.0 ? options_.min_acceptance + kShareMargin : 0.0,
                       .may_lose_ms = kStepShare * candidate.request->account.balance() * pass_ms});
  }
  DraftCosts costs{.step = cost_,
                   .first_pass_ms = first_draft_ms(pass_ms),
                   .next_pass_ms = next_pass_ms_.value_or(first_draft_ms(pass_ms))};
  for (size_t i = 0; i < kDrafters; ++i) costs.may_lose_ms[i] = accounts_[i].balance() * pass_ms;
  std::vector<DraftDepth> depths(choices.size());
  if (!options_.always) {
    depths = choose_depths(choices, n_decoding, n_decoding, max_rows, costs);
    probe(choices, costs, n_decoding, max_rows, depths);
  }
  planned_ = {.n_decoding = n_decoding, .n_rows = n_decoding};
  for (size_t i = 0; i < choices.size(); ++i) {
    Candidate& candidate = candidates[i];
    candidate.depth = options_.always ? choices[i].max_depth : depths[i].n;
    RequestControl& request = *candidate.request;
    request.drafted_by = candidate.drafter;
    request.n_planned = candidate.depth;
    request.cost_passes = depths[i].cost_ms / pass_ms;
    request.token_passes = 1.0 / static_cast<double>(n_decoding);
    planned_.n_rows += candidate.depth;
    planned_.shares[index_of(candidate.drafter)] += static_cast<double>(candidate.depth);
  }
  planned_.rows_ms = cost_.predict(planned_.n_rows) - pass_ms;
  for (double& share : planned_.shares)
    share /= static_cast<double>(std::max<int64_t>(planned_.n_rows - n_decoding, 1));
}

void DraftControl::probe(std::span<const DraftCandidate> choices, const DraftCosts& costs, int64_t n_decoding,
                         int64_t max_rows, std::vector<DraftDepth>& depths) const {
  if (max_rows < 1 || std::ranges::any_of(depths, [](const DraftDepth& depth) { return depth.n > 0; })) return;
  const double pass_ms = cost_.predict(n_decoding);
  const double row_ms = std::max(0.0, cost_.predict(n_decoding + 1) - pass_ms);
  for (size_t i = 0; i < choices.size(); ++i) {
    const DraftCandidate& choice = choices[i];
    const double ms = row_ms + (choice.needs_passes ? costs.first_pass_ms : 0.0);
    const double may_lose_ms = costs.may_lose_ms[index_of(choice.drafter)] - kProbeReserve * pass_ms;
    if (choice.max_depth == 0 || ms > choice.may_lose_ms || ms > may_lose_ms) continue;
    depths[i] = {.n = 1, .cost_ms = ms};
    return;
  }
}

void DraftControl::verified(RequestControl& request, int64_t n_drafts, int64_t n_accepted, int64_t n_answer) {
  const size_t drafter = index_of(request.drafted_by);
  if (request.n_planned > 0) {
    const double gained = static_cast<double>(n_accepted) * request.token_passes;
    request.account.settle(gained, request.cost_passes);
    accounts_[drafter].settle(gained, request.cost_passes);
    request.n_planned = 0;
  }
  if (n_drafts == 0) return;
  request.rates[drafter].add(n_drafts, n_accepted);
  rates_[drafter].add(n_drafts, n_accepted);
  request.gates[drafter].add(n_drafts, n_accepted, n_answer);
}

void DraftControl::measure(int64_t n_rows, double ms) {
  const bool has_drafts = n_rows == planned_.n_rows && n_rows > planned_.n_decoding;
  const double predicted = cost_.predict(n_rows);
  cost_.add(n_rows, ms);
  if (!has_drafts) return;
  const double pass_ms = cost_.predict(planned_.n_decoding);
  const double more = (std::min(ms, kDisturbed * predicted) - pass_ms - planned_.rows_ms) / pass_ms;
  for (size_t i = 0; i < kDrafters; ++i) accounts_[i].settle(0.0, planned_.shares[i] * more);
  planned_ = {};
}

void DraftControl::measure_first_draft(double ms) { average_in(first_pass_ms_, ms); }

void DraftControl::measure_next_draft(double ms) { average_in(next_pass_ms_, ms); }

double DraftControl::first_draft_ms(double pass_ms) const { return first_pass_ms_.value_or(kFirstDraft * pass_ms); }

}  // namespace tempo9::engine
