#include "engine/prompt_sharing.h"

#include <algorithm>

#include "tensor/kv_view.h"

namespace tempo9::engine {
namespace {

bool is_reading(const Sequence& sequence) {
  return sequence.pages && sequence.n_tokens() - sequence.n_computed > 1 && !sequence.events->is_full();
}

int64_t whole_pages(int64_t n_tokens) { return n_tokens / tensor::kPageTokens * tensor::kPageTokens; }

// Up to where `follower` can take the pages of `leader`: at least one token of its own is left to compute.
int64_t shared_tokens(const Sequence& leader, const Sequence& follower) {
  const auto last = follower.keys.end() - 1;
  return whole_pages(std::ranges::mismatch(leader.keys, std::ranges::subrange(follower.keys.begin(), last)).in1 -
                     leader.keys.begin());
}

void stop_at(Sequence& sequence, int64_t n_tokens) {
  if (n_tokens <= sequence.n_computed || n_tokens >= sequence.n_tokens()) return;
  sequence.stop = sequence.stop == 0 ? n_tokens : std::min(sequence.stop, n_tokens);
}

}  // namespace

void share_prompts(std::span<const std::unique_ptr<Sequence>> sequences, bool keeps_states) {
  for (const std::unique_ptr<Sequence>& sequence : sequences) {
    sequence->waits = false;
    if (sequence->pass_end > 0) continue;  // where its step ends is settled
    sequence->stop = 0;
    if (!keeps_states || !is_reading(*sequence)) continue;
    stop_at(*sequence, (sequence->n_computed / kStateInterval + 1) * kStateInterval);
    stop_at(*sequence, whole_pages(sequence->n_prompt - kHeaderTokens));
  }
  for (const std::unique_ptr<Sequence>& leader : sequences) {
    if (!is_reading(*leader)) continue;
    for (const std::unique_ptr<Sequence>& follower : sequences) {
      if (follower->order <= leader->order || !is_reading(*follower)) continue;
      const int64_t n_shared = shared_tokens(*leader, *follower);
      if (n_shared <= follower->n_computed || n_shared <= leader->n_computed) continue;
      follower->waits = true;
      if (keeps_states && leader->pass_end == 0) stop_at(*leader, n_shared);
    }
  }
}

}  // namespace tempo9::engine
