// Conversations that do not fit the context, made shorter where the client has asked for it. Spec api 6.4.
#pragma once

#include <spdlog/spdlog.h>

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "chat/message.h"

namespace tempo9::server {

// What can be left out, oldest first, a call together with its results: all but system messages, the last message of
// the user, and the last part.
size_t n_droppable(const chat::Conversation& conversation);
// The conversation without its `n_parts` oldest such parts.
chat::Conversation without_oldest(const chat::Conversation& conversation, size_t n_parts);

// The outcome of `attempt`, a Result<T>, for the longest conversation that fits: the one without as few of its oldest
// parts as it takes. `whole` is the outcome for all of it, an overflow; it stays when nothing fits. Shorter
// conversations have shorter prompts, which a binary search relies on; one that the template refuses makes way for the
// next shorter one.
template <class Attempt, class Outcome>
Outcome first_that_fits(const chat::Conversation& conversation, std::string_view request_id, const Attempt& attempt,
                        Outcome whole) {
  const size_t n = n_droppable(conversation);
  size_t low = 1;
  for (size_t high = n; low < high;) {
    const size_t middle = low + (high - low) / 2;
    const Outcome outcome = attempt(without_oldest(conversation, middle));
    const bool is_too_long = !outcome && outcome.error().overflow();
    (is_too_long ? low : high) = is_too_long ? middle + 1 : middle;
  }
  for (; low <= n; ++low) {
    Outcome outcome = attempt(without_oldest(conversation, low));
    if (!outcome) continue;
    spdlog::info("event=truncated request={} parts_dropped={} parts={}", request_id, low, n);
    return outcome;
  }
  return whole;
}

}  // namespace tempo9::server
