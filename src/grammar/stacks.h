// The pending calls of a matcher's readings, shared between equal ones.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"

namespace tempo9::grammar {

// Equal stacks have equal numbers, so readings are compared without looking into them. Only grows: by one frame per
// call or array item of the output, at some 50 bytes. One thread at a time.
class Stacks {
 public:
  static constexpr uint32_t kEmpty = 0;

  struct Frame {
    uint32_t below = kEmpty;
    NodeId node = 0;     // where the caller goes on
    uint32_t count = 0;  // the caller's counter
    uint32_t depth = 0;

    bool operator==(const Frame&) const = default;
  };

  Stacks() : frames_(1) {}

  const Frame& top(uint32_t stack) const { return frames_[stack]; }
  uint32_t depth(uint32_t stack) const { return frames_[stack].depth; }
  uint32_t push(uint32_t below, NodeId node, uint32_t count) {
    const Frame frame = {below, node, count, depth(below) + 1};
    const auto [found, is_new] = numbers_.try_emplace(frame, static_cast<uint32_t>(frames_.size()));
    if (is_new) frames_.push_back(frame);
    return found->second;
  }

 private:
  struct Hash {
    size_t operator()(const Frame& frame) const {
      uint64_t key = (uint64_t{frame.below} << 32 | frame.node) * 0x9E3779B97F4A7C15ULL;
      key = (key ^ (key >> 29) ^ frame.count) * 0xff51afd7ed558ccdULL;
      return static_cast<size_t>(key ^ (key >> 32));
    }
  };

  std::vector<Frame> frames_;
  std::unordered_map<Frame, uint32_t, Hash> numbers_;
};

}  // namespace tempo9::grammar
