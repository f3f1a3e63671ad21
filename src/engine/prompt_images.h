// Images among a prompt's tokens: which rows they give, where those stand in space, and what the cache knows them by.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "tensor/views.h"

namespace tempo9::engine {

// Rotary position of a row: time, height, width (spec models 13.2). Text has the same number three times.
using RowPosition = std::array<int32_t, 3>;

// How a model takes images.
struct ImageRules {
  bool is_spatial = false;  // positions go in three directions, else they are the slots
  bool sees_whole = false;  // an image's rows see each other in both directions, so they are computed in one pass
};

// Immutable. Slots are indices into the prompt, and go on into the answer.
class PromptImages {
 public:
  PromptImages() = default;
  // REQUIRES: check_images.
  PromptImages(std::vector<PromptImage> images, ImageRules rules);

  bool empty() const { return images_.empty(); }
  // The row that stands at this slot in a token's place; empty for a token.
  std::span<const float> row_at(int64_t slot) const;
  RowPosition position_at(int64_t slot) const;
  // One past the last slot that this slot's row sees.
  int64_t visible_end(int64_t slot) const;
  // What one pass has to compute together.
  std::span<const tensor::IndexRange> whole() const { return whole_; }

 private:
  struct Place {
    PromptImage image;
    int64_t begin = 0;  // slots [begin, end)
    int64_t end = 0;
    int64_t position = 0;  // that of `begin`
    int64_t next = 0;      // that of `end`
  };
  // The last image that begins at the slot or before; null: none.
  const Place* place_before(int64_t slot) const;

  std::vector<Place> images_;
  std::vector<tensor::IndexRange> whole_;
  ImageRules rules_;
};

// What fits a model and its engine.
struct ImageLimits {
  int64_t embedding_cols = 0;    // of each row
  int64_t max_rows = INT64_MAX;  // of an image
};
// Errors: kInvalidInput when images lie outside the prompt, on each other, without a token behind, have other rows than
// their columns call for, or too many.
Result<void> check_images(std::span<const PromptImage> images, int64_t n_prompt, const ImageLimits& limits);

// What the cache knows the prompt by: its tokens, but for the rows of images, and the token before each image, numbers
// below 0 that are drawn from the image's digest. A text that has an image's first row in common with another so has 62
// bits of their digests in common at least, and 31 more with each further row.
std::vector<int32_t> cache_keys(std::span<const int32_t> prompt, std::span<const PromptImage> images);

}  // namespace tempo9::engine
