#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "tensor/kv_view.h"

namespace tempo9::engine {
namespace {

// Less than this would not be worth starting for: 512 tokens.
constexpr int64_t kLeastPages = 16;
// Bookkeeping takes some bytes a page from the start, whatever the page's own memory: 4 MiB for as many as this.
constexpr int64_t kMostPages = int64_t{1} << 20;
// More copies of states than this would only make the search for the oldest one long.
constexpr int64_t kMostStates = 1024;

// States to keep in `bytes`, of which pages need the larger part.
int64_t n_kept_states(const MemoryNeeds& needs, size_t bytes) {
  return needs.state > 0 ? std::min(static_cast<int64_t>(bytes / 4 / needs.state), kMostStates) : 0;
}

// Without a state to go on from, pages alone are of no use.
bool keeps_pages(const MemoryNeeds& needs, const MemoryPlan& plan) { return needs.state == 0 || plan.kept_states > 0; }

}  // namespace

size_t activation_bytes(const tensor::Program& program, int64_t n_vocab, int64_t max_rows, int64_t max_outputs) {
  const tensor::MemoryPlan& plan = program.memory;
  int64_t floats = max_outputs * n_vocab;
  for (size_t i = 0; i < plan.slot_cols.size(); ++i) {
    floats += plan.slot_cols[i] * (plan.slot_rows[i] == tensor::RowSet::kBatch ? max_rows : max_outputs);
  }
  return static_cast<size_t>(floats) * sizeof(float);
}

size_t open_passes_bytes(const tensor::Program& program, int64_t n_vocab, int64_t max_rows, int64_t max_outputs,
                         int64_t max_batch) {
  return activation_bytes(program, n_vocab, max_rows, max_outputs) +
         activation_bytes(program, n_vocab, max_rows, std::min(max_rows, max_batch));
}

size_t trial_row_bytes(const tensor::Program& program) {
  const auto cols = [&](tensor::ValueId value) { return program.values[static_cast<size_t>(value)].cols; };
  int64_t floats = 0;
  for (const tensor::Op& op : program.ops) {
    if (const auto* conv = std::get_if<tensor::CausalConv>(&op)) floats += cols(conv->x) + cols(conv->out);
    if (const auto* net = std::get_if<tensor::DeltaNet>(&op)) floats += cols(net->beta) + cols(net->alpha);
  }
  return static_cast<size_t>(floats) * sizeof(float);
}

Result<MemoryPlan> plan_memory(const MemoryNeeds& needs, size_t budget) {
  const size_t fixed = needs.fixed();
  const size_t least = fixed + static_cast<size_t>(kLeastPages) * needs.page;
  if (budget < least) {
    constexpr double kMegabyte = 1e6;
    return fail(
        ErrorCode::kInvalidInput,
        fmt::format("a memory budget of {:.0f} MB is too small: {:.0f} MB are the least for {} requests at once, "
                    "with room for {} tokens",
                    static_cast<double>(budget) / kMegabyte, static_cast<double>(least) / kMegabyte + 1.0,
                    needs.max_batch, kLeastPages * tensor::kPageTokens));
  }
  MemoryPlan plan{.budget = budget};
  size_t rest = budget - fixed;
  plan.kept_states = n_kept_states(needs, rest);
  rest -= static_cast<size_t>(plan.kept_states) * needs.state;
  plan.pages = needs.page > 0 ? std::min(static_cast<int64_t>(rest / needs.page), kMostPages) : kMostPages;
  if (keeps_pages(needs, plan)) plan.kept_pages = plan.pages / 2;
  plan.context_length = std::min(needs.context_length, plan.pages * tensor::kPageTokens);
  return plan;
}

MemoryPlan plan_sizes(const MemoryNeeds& needs, int64_t n_pages, size_t kept_bytes) {
  MemoryPlan plan{.pages = n_pages};
  plan.kept_states = n_kept_states(needs, kept_bytes);
  const size_t rest = kept_bytes - static_cast<size_t>(plan.kept_states) * needs.state;
  if (keeps_pages(needs, plan) && needs.page > 0) plan.kept_pages = static_cast<int64_t>(rest / needs.page);
  plan.context_length = std::min(needs.context_length, plan.pages * tensor::kPageTokens);
  return plan;
}

}  // namespace tempo9::engine
