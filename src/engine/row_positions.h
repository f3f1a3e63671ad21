// The rotary positions of a batch's rows, as Batch::positions wants them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/prompt_images.h"

namespace tempo9::engine {

// Kept from pass to pass to reuse its memory.
class RowPositions {
 public:
  void clear() {
    for (std::vector<int32_t>& plane : planes_) plane.clear();
    is_flat_ = true;
  }
  void add(const RowPosition& position) {
    for (size_t i = 0; i < position.size(); ++i) planes_[i].push_back(position[i]);
    is_flat_ = is_flat_ && position[0] == position[1] && position[0] == position[2];
  }
  // One number a row when all are those of text, else three planes. Valid until the next change.
  std::span<const int32_t> view() {
    if (is_flat_) return planes_[0];
    joined_.clear();
    for (const std::vector<int32_t>& plane : planes_) joined_.insert(joined_.end(), plane.begin(), plane.end());
    return joined_;
  }

 private:
  std::array<std::vector<int32_t>, 3> planes_;  // time, height, width
  std::vector<int32_t> joined_;
  bool is_flat_ = true;
};

}  // namespace tempo9::engine
