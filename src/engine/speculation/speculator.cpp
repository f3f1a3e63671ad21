#include "engine/speculation/speculator.h"

#include <algorithm>
#include <chrono>
#include <variant>

#include "base/check.h"
#include "engine/memory_plan.h"
#include "engine/sampler/random.h"

namespace tempo9::engine {
namespace {

ExpertCounts count_experts(const tensor::Program& program) {
  for (const tensor::Op& op : program.ops) {
    if (const auto* experts = std::get_if<tensor::Experts>(&op)) {
      return {.n_experts = program.weights[static_cast<size_t>(experts->gate)].depth, .n_used = experts->n_used};
    }
  }
  return {};
}

// Rows to catch up on, per sequence, up to which a first pass is a usual one. Prompts bring hundreds, once.
constexpr int64_t kUsualRows = 16;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Rows of the draft block's largest pass: of each sequence less than a page waits when the rows of a step come.
int64_t block_rows(const Speculator::Limits& limits) {
  return limits.max_step_rows + limits.max_batch * tensor::kPageTokens;
}

bool is_decoding(const Sequence& sequence) {
  return !sequence.end && sequence.pages && sequence.n_tokens() - sequence.n_computed == 1;
}

}  // namespace

std::vector<tensor::KvLayerSpec> Speculator::kv_layers(const models::Model& model, const SpeculationOptions& options) {
  return options.max_depth > 0 && model.draft ? DraftBlock::kv_layers(model) : model.program.kv_layers;
}

size_t Speculator::buffer_bytes(const models::Model& model, const SpeculationOptions& options, const Limits& limits) {
  if (options.max_depth <= 0) return 0;
  const int64_t n_trial_rows = std::min(limits.max_step_rows, limits.max_batch * (1 + options.max_depth));
  size_t bytes = static_cast<size_t>(n_trial_rows) * trial_row_bytes(model.program);
  if (!model.draft) return bytes;
  const tensor::Program& draft = model.draft->program;
  const int64_t n_rows = block_rows(limits);
  bytes += activation_bytes(draft, model.info.n_vocab, n_rows, limits.max_batch);
  // Of each row: as the model's pass gives it, as it waits, as the block takes it; and as it gives it, of each draft.
  const int64_t cols = draft.values[static_cast<size_t>(draft.hidden)].cols;
  return bytes + static_cast<size_t>((limits.max_step_rows + 2 * n_rows + limits.max_batch) * cols) * sizeof(float);
}

Result<std::unique_ptr<Speculator>> Speculator::create(backends::Backend& backend, const models::Model& model,
                                                       const tokenizer::Tokenizer& tokenizer, kv::Cache& cache,
                                                       const SpeculationOptions& options, const Limits& limits) {
  std::unique_ptr<Speculator> speculator(
      new Speculator(tokenizer, cache, options, limits, count_experts(model.program)));
  if (model.draft) {
    T9_TRY(block, DraftBlock::create(backend, model, cache,
                                     {.max_rows = block_rows(limits), .max_outputs = limits.max_batch}));
    speculator->block_ = std::move(block);
  }
  return speculator;
}

SequenceSpeculation& Speculator::state_of(Sequence& sequence) {
  if (!sequence.speculation) {
    sequence.speculation = std::make_unique<SequenceSpeculation>(
        SequenceSpeculation{.text = {}, .control = control_.begin_request(), .pending = {}});
  }
  return *sequence.speculation;
}

void Speculator::verified(Sequence& sequence, int64_t n_drafts, int64_t n_accepted) {
  RequestControl& control = state_of(sequence).control;
  const size_t drafter = index_of(control.drafted_by);
  const uint64_t n_closings = control.gates[drafter].n_closings();
  control_.verified(control, n_drafts, n_accepted, sequence.n_answer());
  sequence.n_drafted += n_drafts;
  sequence.n_drafts_accepted += n_accepted;
  DrafterStats& stats = stats_.drafters[drafter];
  stats.gate_closings += control.gates[drafter].n_closings() - n_closings;
  for (int64_t i = 0; i < n_drafts; ++i) {
    ++stats.proposed[static_cast<size_t>(i)];
    if (i < n_accepted) ++stats.accepted[static_cast<size_t>(i)];
  }
}

void Speculator::draft(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences,
                       tensor::MatView<const float> hidden) {
  std::vector<Candidate> candidates = find_candidates(plan, sequences);
  choose(candidates);
  if (block_) {
    take_hidden(plan, sequences, hidden);
    catch_up(plan, sequences, candidates);
  }
  if (options_.wrong_share > 0.0) {
    for (const Candidate& candidate : candidates) spoil(*candidate.sequence);
  }
  for (const Candidate& candidate : candidates) ++stats_.steps_by_depth[candidate.sequence->drafts.size()];
}

// Which ones follows from their places alone: runs can be compared.
void Speculator::spoil(Sequence& sequence) const {
  auto place = static_cast<uint64_t>(sequence.n_tokens());
  for (int32_t& draft : sequence.drafts) {
    if (uniform_at(/*seed=*/0, place++) < options_.wrong_share) draft = (draft + 1) % tokenizer_.n_tokens();
  }
}

// ---- choosing

int64_t Speculator::depth_limit(const Sequence& sequence, Drafter drafter) const {
  const int64_t n_answer = sequence.n_answer();
  // The last token of an answer is sampled and never read.
  return std::min(control_.depth_limit(sequence.speculation->control, drafter, n_answer),
                  sequence.max_tokens - n_answer - 1);
}

bool Speculator::prefers_block(const Sequence& sequence) const {
  return block_ && control_.prefers_block(sequence.speculation->control, sequence.n_answer());
}

// Drafts that the answer cannot hold are of no use: those behind its end, and what its grammar forbids.
void Speculator::draft_from_text(Sequence& sequence) const {
  const int64_t limit = depth_limit(sequence, Drafter::kText);
  if (limit <= 0) return;
  sequence.speculation->text.extend(sequence.tokens);
  sequence.speculation->text.propose(sequence.tokens, static_cast<size_t>(limit), sequence.drafts);
  std::optional<ConstraintState> constraint = sequence.constraint;
  size_t n_possible = 0;
  for (const int32_t token : sequence.drafts) {
    if (tokenizer_.is_end_of_generation(token) && !sequence.ignore_end) break;
    if (constraint && !constraint->accept(tokenizer_.piece(token, sequence.shows(token)))) break;
    ++n_possible;
  }
  sequence.drafts.resize(n_possible);
}

std::vector<Speculator::Candidate> Speculator::find_candidates(const StepPlan& plan,
                                                               std::span<const std::unique_ptr<Sequence>> sequences) {
  std::vector<Candidate> candidates;
  for (const StepPlan::Rows& rows : plan.rows) {
    Sequence& sequence = *sequences[static_cast<size_t>(rows.sequence)];
    if (!is_decoding(sequence)) continue;
    SequenceSpeculation& state = state_of(sequence);
    sequence.drafts.clear();
    if (!prefers_block(sequence)) draft_from_text(sequence);
    state.control.drafted_by = sequence.drafts.empty() && block_ ? Drafter::kBlock : Drafter::kText;
    candidates.push_back({.sequence = &sequence});
  }
  return candidates;
}

void Speculator::choose(std::vector<Candidate>& candidates) {
  std::vector<DraftControl::Candidate> choices;
  for (const Candidate& candidate : candidates) {
    RequestControl& control = candidate.sequence->speculation->control;
    const bool from_block = control.drafted_by == Drafter::kBlock;
    choices.push_back({.request = &control,
                       .drafter = control.drafted_by,
                       .limit = from_block ? depth_limit(*candidate.sequence, Drafter::kBlock)
                                           : std::ssize(candidate.sequence->drafts)});
  }
  control_.choose(choices, limits_.max_step_rows - std::ssize(candidates));
  for (size_t i = 0; i < candidates.size(); ++i) {
    Candidate& candidate = candidates[i];
    candidate.depth = choices[i].depth;
    if (choices[i].drafter == Drafter::kText) candidate.sequence->drafts.resize(static_cast<size_t>(candidate.depth));
  }
}

// ---- the draft block

void Speculator::take_hidden(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences,
                             tensor::MatView<const float> hidden) {
  int64_t first = 0;
  for (const StepPlan::Rows& rows : plan.rows) {
    Sequence& sequence = *sequences[static_cast<size_t>(rows.sequence)];
    SequenceSpeculation& state = state_of(sequence);
    const int64_t n_pending = std::ssize(state.pending) / hidden.cols;
    if (state.pending_begin + n_pending != rows.begin) {  // it goes on from what another has computed
      state.pending.clear();
      state.pending_begin = rows.begin;
    }
    for (int64_t i = 0; i < sequence.n_computed - rows.begin; ++i) {
      const auto row = hidden.row_span(first + i);
      state.pending.insert(state.pending.end(), row.begin(), row.end());
    }
    first += rows.end - rows.begin;
  }
}

// Adds what the sequence has waiting to the block's pass, if that is due. False when no row was added.
bool Speculator::add_pending(Sequence& sequence, bool is_drafted) {
  SequenceSpeculation& state = *sequence.speculation;
  const int64_t cols = block_->hidden_cols();
  const int64_t end = std::min(state.pending_begin + std::ssize(state.pending) / cols, sequence.n_tokens() - 1);
  const bool fills_page = end / tensor::kPageTokens > state.pending_begin / tensor::kPageTokens;
  if (end <= state.pending_begin || !(is_drafted || fills_page || sequence.end)) return false;
  for (int64_t slot = state.pending_begin; slot < end; ++slot) {
    const auto row = std::span(state.pending)
                         .subspan(static_cast<size_t>((slot - state.pending_begin) * cols), static_cast<size_t>(cols));
    block_->add_row(sequence.pages.value(), slot, sequence.images.position_at(slot),
                    sequence.tokens[static_cast<size_t>(slot) + 1], row);
  }
  state.pending.clear();
  state.pending_begin = end;
  return true;
}

void Speculator::catch_up(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences,
                          std::vector<Candidate>& candidates) {
  const Clock::time_point started = Clock::now();
  block_->clear();
  std::vector<Candidate*> drafting;
  for (const StepPlan::Rows& rows : plan.rows) {
    Sequence& sequence = *sequences[static_cast<size_t>(rows.sequence)];
    const auto candidate = std::ranges::find(candidates, &sequence, &Candidate::sequence);
    const bool is_drafted = candidate != candidates.end() && candidate->depth > 0 &&
                            sequence.speculation->control.drafted_by == Drafter::kBlock;
    if (!add_pending(sequence, is_drafted) || !is_drafted) continue;
    block_->want_draft();
    candidate->constraint = sequence.constraint;
    drafting.push_back(&*candidate);
  }
  if (block_->n_rows() == 0) return;
  const DraftBlock::Output first = block_->run();
  const bool is_usual = block_->n_rows() <= kUsualRows * std::ssize(drafting);
  if (is_usual) control_.measure_first_draft(ms_since(started));
  draft_deeper(std::move(drafting), first);
}

void Speculator::draft_deeper(std::vector<Candidate*> drafting, DraftBlock::Output output) {
  const std::vector<Candidate*> all = drafting;
  while (!drafting.empty()) {
    const Clock::time_point started = Clock::now();
    std::vector<Candidate*> next;
    std::vector<int64_t> rows;
    for (size_t i = 0; i < drafting.size(); ++i) {
      if (!add_guess(*drafting[i], output.logits.row_span(static_cast<int64_t>(i)))) continue;
      next.push_back(drafting[i]);
      rows.push_back(static_cast<int64_t>(i));
    }
    drafting = std::move(next);
    if (drafting.empty()) break;
    block_->clear();
    for (size_t i = 0; i < drafting.size(); ++i) {
      const Sequence& sequence = *drafting[i]->sequence;
      // The row's own slot is that of the token before its last draft.
      const int64_t slot = sequence.n_computed - 1 + std::ssize(sequence.drafts);
      block_->add_row(sequence.pages.value(), slot, sequence.images.position_at(slot), sequence.drafts.back(),
                      output.hidden.row_span(rows[i]));
      block_->want_draft();
    }
    output = block_->run();
    control_.measure_next_draft(ms_since(started));
  }
  for (Candidate* candidate : all) cache_.truncate(candidate->sequence->pages.value(), candidate->sequence->n_computed);
}

bool Speculator::add_guess(Candidate& candidate, std::span<float> logits) {
  Sequence& sequence = *candidate.sequence;
  const grammar::TokenMask* allowed = nullptr;
  if (candidate.constraint) {
    const auto mask = candidate.constraint->allowed_tokens();
    if (!mask) return false;
    allowed = *mask;
  }
  const size_t n_tokens = sequence.tokens.size();
  sequence.tokens.insert(sequence.tokens.end(), sequence.drafts.begin(), sequence.drafts.end());
  const Result<int32_t> guess = sequence.sampler.guess(logits, sequence.tokens, allowed, scratch_);
  sequence.tokens.resize(n_tokens);
  if (!guess || (tokenizer_.is_end_of_generation(*guess) && !sequence.ignore_end)) return false;
  sequence.drafts.push_back(*guess);
  if (candidate.constraint) {
    if (!candidate.constraint->accept(tokenizer_.piece(*guess, sequence.shows(*guess)))) return false;
    if (candidate.constraint->is_complete()) return false;
  }
  const int64_t n_drafts = std::ssize(sequence.drafts);
  // The next row needs a slot in the pages.
  return n_drafts < candidate.depth && cache_.grow(sequence.pages.value(), sequence.n_computed + n_drafts).has_value();
}

SpeculationStats Speculator::stats(std::span<const std::unique_ptr<Sequence>> sequences) const {
  SpeculationStats stats = stats_;
  for (const std::unique_ptr<Sequence>& sequence : sequences) {
    if (!sequence->speculation) continue;
    for (size_t drafter = 0; drafter < kDrafters; ++drafter) {
      if (drafter == index_of(Drafter::kBlock) && !block_) continue;
      const bool is_open = sequence->speculation->control.gates[drafter].is_open();
      ++(is_open ? stats.drafters[drafter].gates_open : stats.drafters[drafter].gates_closed);
    }
  }
  const StepCost& cost = control_.cost();
  if (cost.is_measured()) {
    stats.pass_ms = cost.base_ms();
    stats.row_ms = cost.row_ms();
  }
  stats.median_error = cost.median_error();
  stats.draft_ms = control_.next_draft_ms();
  return stats;
}

}  // namespace tempo9::engine
