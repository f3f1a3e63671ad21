// What one step of the engine does, as plain data: the scheduler writes it, the engine and the runner carry it out.
#pragma once

#include <cstdint>
#include <vector>

namespace tempo9::engine {

// Sequences are named by their index in the list that the plan was made for.
struct StepPlan {
  // The tokens [begin, end) of a sequence become rows; `wants_logits` for the last of them. The last n_drafts are not
  // tokens of the sequence, but its first drafts: their rows give logits too, and may be taken back.
  struct Rows {
    int32_t sequence = 0;
    int64_t begin = 0;
    int64_t end = 0;
    bool wants_logits = false;
    int64_t n_drafts = 0;

    int64_t n_outputs() const { return wants_logits ? 1 + n_drafts : 0; }

    friend bool operator==(const Rows&, const Rows&) = default;
  };

  std::vector<int32_t> resume;  // get a place in the cache again
  std::vector<int32_t> pause;   // give their pages back, before any is taken
  std::vector<Rows> rows;       // at most one entry per sequence
  int64_t n_decode_rows = 0;    // of sequences that miss one token only, with drafts
  int64_t n_prefill_rows = 0;   // of all others
};

// Beside the step's own pass one of prompts alone may be open, which goes on between steps (prompt_pass.h).
struct Plans {
  StepPlan step;
  StepPlan behind;  // rows of a prompt pass that begins; `pause` and `resume` are the step's
};

// How many rows of prompts there may be.
struct PrefillRows {
  int64_t beside_decode = 0;  // in a step in which others decode
  int64_t alone = 0;          // in a step of prompts alone
  int64_t behind = 0;         // in a prompt pass, for prompts that are longer than that; 0: none may begin
  // Prompts of so few are read beside those that decode although it takes some steps: a pass of their own would read
  // the weights once more.
  int64_t in_some_steps = 0;
};

}  // namespace tempo9::engine
