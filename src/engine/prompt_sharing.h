// Prompts that begin alike and are read at the same time: one reads, the others wait for its pages (spec performance
// section 8, "group the cold start").
#pragma once

#include <memory>
#include <span>

#include "engine/sequence.h"

namespace tempo9::engine {

// Prompt tokens between two kept recurrent states.
inline constexpr int64_t kStateInterval = 512;

// A prompt ends with the header of the answer, and templates write an earlier answer's header otherwise: without the
// empty thought that stands for "no thinking", above all. Qwen3.5's, the longest there is, has 7 tokens.
inline constexpr int64_t kHeaderTokens = 8;

// Sets `waits` and `stop` of each sequence that still reads its prompt. One waits while an older one that can run is
// about to read the next page of the same text. Waiting never goes in a circle: the oldest reads. `keeps_states`: the
// model has recurrent layers, so others can only go on from where a state was kept: after each kStateInterval, where
// another prompt departs, and at the last page before the header of the answer.
void share_prompts(std::span<const std::unique_ptr<Sequence>> sequences, bool keeps_states);

}  // namespace tempo9::engine
