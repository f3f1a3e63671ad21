// Speculation: guesses tokens, which the next step verifies as ordinary rows. What it guesses never changes an answer,
// only how many steps it takes (spec performance section 11).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampler/sampler.h"
#include "engine/sequence.h"
#include "engine/speculation/draft_block.h"
#include "engine/speculation/draft_control.h"
#include "engine/speculation/options.h"
#include "engine/step_plan.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::engine {

// Engine thread only.
class Speculator {
 public:
  struct Limits {
    int64_t max_step_rows = 0;
    int64_t max_batch = 0;
  };
  // The KV layers that the engine's cache needs.
  static std::vector<tensor::KvLayerSpec> kv_layers(const models::Model& model, const SpeculationOptions& options);

  // Memory that speculation takes beside pages and states: the draft block's passes, hidden states on their way to it,
  // and what is kept of rows that may be taken back. Not the index of a text that repeats itself, which grows with the
  // text as the text does.
  static size_t buffer_bytes(const models::Model& model, const SpeculationOptions& options, const Limits& limits);

  // All arguments but the options must outlive it. `cache` has the layers of kv_layers.
  static Result<std::unique_ptr<Speculator>> create(backends::Backend& backend, const models::Model& model,
                                                    const tokenizer::Tokenizer& tokenizer, kv::Cache& cache,
                                                    const SpeculationOptions& options, const Limits& limits);

  // It reads the model's hidden states: the runner has to give them.
  bool reads_hidden() const { return block_.has_value(); }

  // The first `n_accepted` of the `n_drafts` drafts of a step were right. Before the sequence gets new drafts.
  void verified(Sequence& sequence, int64_t n_drafts, int64_t n_accepted);
  // Gives the sequences of a step whose tokens have been sampled their drafts for the next one. `hidden`: of the step's
  // rows. Takes pages on trial and gives them back. Also lets the draft block see the rows whose pages are about to be
  // full or kept, so that these hold its part before others get them.
  void draft(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences,
             tensor::MatView<const float> hidden);
  // A step without rows of prompts took so long.
  void measure(int64_t n_rows, double ms) { control_.measure(n_rows, ms); }

  // `sequences`: those that run, whose gates are counted.
  SpeculationStats stats(std::span<const std::unique_ptr<Sequence>> sequences) const;

 private:
  // A sequence that could have drafts, and how many it gets.
  struct Candidate {
    Sequence* sequence = nullptr;
    int64_t depth = 0;
    std::optional<ConstraintState> constraint = {};  // behind the drafts so far
  };

  Speculator(const tokenizer::Tokenizer& tokenizer, kv::Cache& cache, const SpeculationOptions& options,
             const Limits& limits, ExpertCounts experts)
      : tokenizer_(tokenizer), cache_(cache), options_(options), limits_(limits), control_(options, experts) {}

  SequenceSpeculation& state_of(Sequence& sequence);
  int64_t depth_limit(const Sequence& sequence, Drafter drafter) const;
  bool prefers_block(const Sequence& sequence) const;
  void draft_from_text(Sequence& sequence) const;
  std::vector<Candidate> find_candidates(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences);
  void choose(std::vector<Candidate>& candidates);
  void spoil(Sequence& sequence) const;

  void take_hidden(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences,
                   tensor::MatView<const float> hidden);
  bool add_pending(Sequence& sequence, bool is_drafted);
  void catch_up(const StepPlan& plan, std::span<const std::unique_ptr<Sequence>> sequences,
                std::vector<Candidate>& candidates);
  void draft_deeper(std::vector<Candidate*> drafting, DraftBlock::Output output);
  // False when the sequence gets no more drafts.
  bool add_guess(Candidate& candidate, std::span<float> logits);

  const tokenizer::Tokenizer& tokenizer_;
  kv::Cache& cache_;
  const SpeculationOptions options_;
  const Limits limits_;
  std::optional<DraftBlock> block_;
  SamplerScratch scratch_;

  DraftControl control_;
  SpeculationStats stats_;
};

}  // namespace tempo9::engine
