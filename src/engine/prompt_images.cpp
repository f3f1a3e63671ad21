#include "engine/prompt_images.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace tempo9::engine {
namespace {

int64_t n_rows(const PromptImage& image) { return int64_t{image.height} * image.width; }

// Of the image's row; -1: of the token before it.
int32_t key_of(const PromptImage& image, int64_t row) {
  const uint64_t hash = XXH3_64bits_withSeed(image.digest.data(), image.digest.size(), static_cast<uint64_t>(row));
  return static_cast<int32_t>(static_cast<uint32_t>(hash) | 0x8000'0000u);
}

}  // namespace

PromptImages::PromptImages(std::vector<PromptImage> images, ImageRules rules) : rules_(rules) {
  int64_t slot = 0, position = 0;
  for (PromptImage& image : images) {
    Place place{.begin = image.begin, .end = image.begin + n_rows(image)};
    place.position = position + (image.begin - slot);
    place.next = place.position + (rules.is_spatial ? std::max(image.height, image.width) : place.end - place.begin);
    place.image = std::move(image);
    slot = place.end;
    position = place.next;
    if (rules.sees_whole) whole_.push_back({place.begin, place.end});
    images_.push_back(std::move(place));
  }
}

const PromptImages::Place* PromptImages::place_before(int64_t slot) const {
  const auto after = std::ranges::upper_bound(images_, slot, {}, &Place::begin);
  return after == images_.begin() ? nullptr : &*(after - 1);
}

std::span<const float> PromptImages::row_at(int64_t slot) const {
  const Place* place = place_before(slot);
  if (!place || slot >= place->end) return {};
  const std::vector<float>& rows = *place->image.rows;
  const size_t cols = rows.size() / static_cast<size_t>(place->end - place->begin);
  return std::span(rows).subspan(static_cast<size_t>(slot - place->begin) * cols, cols);
}

RowPosition PromptImages::position_at(int64_t slot) const {
  const auto same = [](int64_t position) {
    const auto p = static_cast<int32_t>(position);
    return RowPosition{p, p, p};
  };
  const Place* place = place_before(slot);
  if (!place || !rules_.is_spatial) return same(slot);
  if (slot >= place->end) return same(place->next + slot - place->end);
  const auto first = static_cast<int32_t>(place->position);
  const auto row = static_cast<int32_t>(slot - place->begin);
  return {first, first + row / place->image.width, first + row % place->image.width};
}

int64_t PromptImages::visible_end(int64_t slot) const {
  const Place* place = rules_.sees_whole ? place_before(slot) : nullptr;
  return place && slot < place->end ? place->end : slot + 1;
}

Result<void> check_images(std::span<const PromptImage> images, int64_t n_prompt, const ImageLimits& limits) {
  int64_t end = 0;
  for (const PromptImage& image : images) {
    const int64_t n = image.height > 0 && image.width > 0 ? n_rows(image) : 0;
    if (n == 0 || image.begin < end || n >= n_prompt - image.begin) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("an image of {} by {} rows at token {} does not fit a prompt of "
                              "{} tokens and {} of images before",
                              image.height, image.width, image.begin, n_prompt, end));
    }
    const int64_t n_values = image.rows ? std::ssize(*image.rows) : 0;
    if (n_values != n * limits.embedding_cols) {
      return fail(ErrorCode::kInvalidInput, fmt::format("an image of {} rows has {} values, the model takes {} a row",
                                                        n, n_values, limits.embedding_cols));
    }
    if (n > limits.max_rows) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("an image of {} rows: the model looks at an image as a whole, of {} rows at most", n,
                              limits.max_rows));
    }
    end = image.begin + n;
  }
  return {};
}

std::vector<int32_t> cache_keys(std::span<const int32_t> prompt, std::span<const PromptImage> images) {
  std::vector<int32_t> keys(prompt.begin(), prompt.end());
  for (const PromptImage& image : images) {
    const int64_t first = image.begin > 0 ? -1 : 0;
    for (int64_t row = first; row < n_rows(image); ++row) {
      int32_t& key = keys[static_cast<size_t>(image.begin + row)];
      const bool is_of_image_before = row < 0 && key < 0;
      if (!is_of_image_before) key = key_of(image, row);
    }
  }
  return keys;
}

}  // namespace tempo9::engine
