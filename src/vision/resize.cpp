#include "vision/resize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace tempo9::vision {
namespace {

constexpr int kFractionBits = 22;
constexpr int64_t kChannels = 3;

double triangle(double x) { return std::max(0.0, 1.0 - std::fabs(x)); }

// Keys' cubic with a = -1/2.
double cubic(double x) {
  x = std::fabs(x);
  if (x < 1.0) return (1.5 * x - 2.5) * x * x + 1.0;
  if (x < 2.0) return ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0;
  return 0.0;
}

// What one value of the result is made of.
struct Tap {
  int64_t begin = 0;  // first source index
  std::vector<int32_t> weights;
};

std::vector<Tap> make_taps(int64_t n_in, int64_t n_out, Filter filter) {
  const double scale = static_cast<double>(n_in) / static_cast<double>(n_out);
  const double widening = std::max(1.0, scale);
  const double support = (filter == Filter::kBicubic ? 2.0 : 1.0) * widening;
  std::vector<Tap> taps(static_cast<size_t>(n_out));
  for (int64_t i = 0; i < n_out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t begin = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const int64_t end = std::min(n_in, static_cast<int64_t>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0.0;
    for (int64_t j = begin; j < end; ++j) {
      const double distance = (static_cast<double>(j) + 0.5 - center) / widening;
      weights.push_back(filter == Filter::kBicubic ? cubic(distance) : triangle(distance));
      sum += weights.back();
    }
    Tap& tap = taps[static_cast<size_t>(i)];
    tap.begin = begin;
    for (const double weight : weights) {
      tap.weights.push_back(static_cast<int32_t>(std::round(weight / sum * (1 << kFractionBits))));
    }
  }
  return taps;
}

uint8_t to_byte(int64_t fixed) {
  return static_cast<uint8_t>(std::clamp<int64_t>((fixed + (1 << (kFractionBits - 1))) >> kFractionBits, 0, 255));
}

Image resize_columns(const Image& image, int32_t width, Filter filter) {
  const std::vector<Tap> taps = make_taps(image.width, width, filter);
  Image out{.width = width, .height = image.height, .rgb = {}};
  out.rgb.resize(static_cast<size_t>(kChannels) * static_cast<size_t>(width) * static_cast<size_t>(image.height));
  uint8_t* to = out.rgb.data();
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = image.rgb.data() + y * image.width * kChannels;
    for (const Tap& tap : taps) {
      int64_t sums[kChannels] = {};
      const uint8_t* from = row + tap.begin * kChannels;
      for (const int32_t weight : tap.weights) {
        for (int64_t c = 0; c < kChannels; ++c) sums[c] += int64_t{weight} * *from++;
      }
      for (const int64_t sum : sums) *to++ = to_byte(sum);
    }
  }
  return out;
}

Image resize_rows(const Image& image, int32_t height, Filter filter) {
  const std::vector<Tap> taps = make_taps(image.height, height, filter);
  const auto row_values = static_cast<size_t>(image.width) * kChannels;
  Image out{.width = image.width, .height = height, .rgb = {}};
  out.rgb.resize(row_values * static_cast<size_t>(height));
  std::vector<int64_t> sums(row_values);
  uint8_t* to = out.rgb.data();
  for (const Tap& tap : taps) {
    std::ranges::fill(sums, 0);
    const uint8_t* from = image.rgb.data() + static_cast<size_t>(tap.begin) * row_values;
    for (const int32_t weight : tap.weights) {
      for (size_t i = 0; i < row_values; ++i) sums[i] += int64_t{weight} * from[i];
      from += row_values;
    }
    for (const int64_t sum : sums) *to++ = to_byte(sum);
  }
  return out;
}

}  // namespace

Image resize(const Image& image, int32_t width, int32_t height, Filter filter) {
  T9_CHECK(width > 0 && height > 0 && image.width > 0 && image.height > 0);
  Image result = width == image.width ? image : resize_columns(image, width, filter);
  return height == image.height ? result : resize_rows(result, height, filter);
}

}  // namespace tempo9::vision
