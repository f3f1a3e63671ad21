// How the memory budget is divided: everything that serving takes beside the weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "tensor/program.h"

namespace tempo9::engine {

// Working memory of a pass of so many rows and outputs, and its logits. Values whose lifetimes do not meet share
// theirs.
size_t activation_bytes(const tensor::Program& program, int64_t n_vocab, int64_t max_rows, int64_t max_outputs);

// That of the two passes that may be open at once: a step's, and one over prompts with an output for each sequence.
size_t open_passes_bytes(const tensor::Program& program, int64_t n_vocab, int64_t max_rows, int64_t max_outputs,
                         int64_t max_batch);

// What a backend keeps of each row that may be taken back (Executable::replay): what its recurrent layers have read and
// made of it.
size_t trial_row_bytes(const tensor::Program& program);

// What has to be there, in bytes.
struct MemoryNeeds {
  size_t activations = 0;  // working memory of the passes that may be open at once, and their logits
  size_t disk_buffers = 0;
  size_t speculation = 0;    // of guesses: Speculator::buffer_bytes
  size_t image_rows = 0;     // of those passes
  size_t page = 0;           // K and V of a page, over all layers
  size_t state = 0;          // recurrent state of one sequence; 0 for models without
  int64_t trial_states = 0;  // beside those of max_batch sequences: from before rows that may be taken back
  int64_t max_batch = 0;
  int64_t context_length = 0;

  // That is taken whatever is asked.
  size_t fixed() const {
    return activations + disk_buffers + speculation + image_rows +
           static_cast<size_t>(max_batch + trial_states) * state;
  }
};

struct MemoryPlan {
  size_t budget = 0;
  int64_t pages = 0;        // that exist at once
  int64_t kept_pages = 0;   // of them, pages that may be kept for requests to come
  int64_t kept_states = 0;  // beside those of max_batch sequences
  int64_t context_length = 0;
};

// Pages get what is fixed and kept states leave. Half of them may be kept: the rest is there for what runs and
// goes back to the system after it. Errors: kInvalidInput with both numbers when not even a short text has room.
Result<MemoryPlan> plan_memory(const MemoryNeeds& needs, size_t budget);

// Without a budget: so many pages, and `kept_bytes` for pages and states that are kept beside them.
MemoryPlan plan_sizes(const MemoryNeeds& needs, int64_t n_pages, size_t kept_bytes);

}  // namespace tempo9::engine
