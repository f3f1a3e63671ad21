// Counts what one rendering spends. Templates are untrusted code: every loop, string and list is paid for here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "chat/template/template.h"

namespace tempo9::chat {

// Deeper nesting of lists and dicts is refused: printing, comparing and freeing values recurse.
inline constexpr int kMaxNesting = 500;

// Spending never fails on the spot: the interpreter asks `exceeded` before each node, so an operation may only go on
// unasked if its cost is linear in values that are already paid for. Others ask `can_hold` first.
class Meter {
 public:
  explicit Meter(const TemplateLimits& limits) : limits_(limits) {}

  void step(int64_t n = 1) { steps_ += n; }
  // For work on text: 64 bytes cost as much as one node.
  void step_bytes(size_t n) { steps_ += static_cast<int64_t>(n / 64); }
  void allocate(size_t bytes) { memory_ += bytes; }
  void release(size_t bytes) { memory_ -= bytes; }

  // To be told how deep each new list or dict nests.
  void nest(int depth) {
    if (depth > kMaxNesting) too_deep_ = true;
  }

  // Whether a text of this size may be built. If not, the limit counts as exceeded.
  bool can_hold(size_t text_bytes) {
    if (text_bytes > limits_.output_bytes) too_long_ = true;
    return !too_long_;
  }
  size_t max_text_bytes() const { return limits_.output_bytes; }

  bool exceeded() const { return too_long_ || too_deep_ || steps_ > limits_.steps || memory_ > limits_.memory_bytes; }
  // REQUIRES: exceeded().
  Error error() const;

  const TemplateLimits& limits() const { return limits_; }

 private:
  const TemplateLimits limits_;
  int64_t steps_ = 0;
  size_t memory_ = 0;
  bool too_long_ = false;
  bool too_deep_ = false;
};

}  // namespace tempo9::chat
