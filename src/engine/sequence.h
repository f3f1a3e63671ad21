// One request on its way through the engine. Engine thread only, once it has left the queue.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint.h"
#include "engine/event_queue.h"
#include "engine/output.h"
#include "engine/prompt_images.h"
#include "engine/sampler/sampler.h"
#include "engine/speculation/sequence_speculation.h"
#include "engine/thought.h"
#include "kv/cache.h"

namespace tempo9::engine {

using Clock = std::chrono::steady_clock;

struct Sequence {
  std::string id;
  std::string route;
  std::string client;
  std::vector<int32_t> tokens;  // prompt, then answer
  std::vector<int32_t> keys;    // what the cache knows them by
  PromptImages images;
  int64_t n_prompt = 0;
  int64_t max_tokens = 0;  // of the answer; prompt and answer fit the context
  int64_t n_reserved = 0;  // tokens that pages are set aside for at admission
  std::vector<int32_t> shown_control;
  bool ignore_end = false;
  uint64_t order = 0;  // of admission

  std::optional<kv::SequenceId> pages;  // absent while it waits or is paused
  int64_t n_computed = 0;               // tokens whose K and V are in the pages
  int64_t pass_end = 0;                 // its tokens up to here are in a prompt pass that is open; 0: none are
  int64_t n_reused = 0;                 // of the prompt, that were there already
  bool was_paused = false;              // what it finds again is its own
  bool asked_disk = false;              // since it has pages
  std::optional<Clock::time_point> asked_disk_at;  // what the disk reads is not here yet
  std::optional<kv::Difference> difference;        // of the prompt, when it was admitted
  bool waits = false;                              // an older one is reading a part of the same prompt
  int64_t stop = 0;  // a step must not read beyond this token: a state is to be kept there; 0: any may
  // Guesses of the tokens that come next. The next step verifies them, as far as there is room.
  std::vector<int32_t> drafts;
  std::unique_ptr<SequenceSpeculation> speculation;  // once it has been looked at for drafts
  int64_t n_drafted = 0;                             // in all, verified
  int64_t n_drafts_accepted = 0;
  double energy_j = 0.0;  // its share of the passes so far
  // How the answer ended, from the step that found out until its last event is posted.
  std::optional<Result<FinishReason>> end;
  bool ended = false;  // its last event was posted

  std::optional<ConstraintState> constraint;
  std::optional<Thought> thought;  // when it has a limit
  Sampler sampler;
  Output output;
  std::shared_ptr<EventQueue> events;

  Clock::time_point submitted;
  std::optional<Clock::time_point> first_row;
  std::optional<Clock::time_point> first_token;
  Clock::time_point last_token;

  int64_t n_tokens() const { return static_cast<int64_t>(tokens.size()); }
  int64_t n_answer() const { return n_tokens() - n_prompt; }
  // The token's text is part of the answer although it is a control token.
  bool shows(int32_t token) const { return std::ranges::find(shown_control, token) != shown_control.end(); }
};

}  // namespace tempo9::engine
