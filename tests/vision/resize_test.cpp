// Scaled images against what Pillow 13 gives for the same pixels, and against the filter's definition.
#include "vision/resize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"

namespace tempo9::vision {
namespace {

// Top bytes of a linear congruence that begins with the image's size.
Image noise(int32_t width, int32_t height) {
  Image image{.width = width, .height = height, .rgb = {}};
  image.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  auto state = static_cast<uint32_t>(width) * 65536u + static_cast<uint32_t>(height);
  for (uint8_t& value : image.rgb) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint8_t>(state >> 24);
  }
  return image;
}

struct Case {
  int32_t from_width, from_height, width, height;
  Filter filter;
  std::string_view sha256;
};

// Image.resize((width, from_height), BICUBIC or BILINEAR).resize((width, height), ...).tobytes() of the image above. In
// one call Pillow 13 gives the same, but for the first and fourth, whose rows it scales before their columns.
constexpr Case kPillow[] = {
    {37, 53, 64, 32, Filter::kBicubic, "e9c67be03d3a122a2be35260847409e2317e79d921baf50fa35218cc753027e5"},
    {37, 53, 37, 53, Filter::kBicubic, "392c5e4dc2ba19397a04a47520ba6e2f4c7c6cb763160e69c9dfbc721c1d482b"},
    {200, 120, 64, 64, Filter::kBicubic, "2f7a1a422325446e3439d7c38da695b5d048227f04c7c1678497423bff9ae61a"},
    {200, 120, 224, 96, Filter::kBicubic, "dce7344a3c8bbbbdc86d2d7fc6f74e45cc57439419eea0b19495e3f04dfd11fa"},
    {5, 7, 32, 32, Filter::kBicubic, "9b3f86f2b96ace90e569459060517caf49cdea21bcd7bfd3297b39c594539f08"},
    {1, 1, 256, 256, Filter::kBicubic, "01d19b00c8385640bfb759bd9dced27a43b736955b4141de58ccf29cf60754df"},
    {300, 2, 288, 32, Filter::kBicubic, "b18ca11e96a75e210f5805d308d1ded0ebcf7308e9f2181d55b177bd22237225"},
    {97, 31, 96, 32, Filter::kBicubic, "6bb873872a0a78c8873c0beeb87c5d9586c4d50038a93cc0d4d84f652da40895"},
    {64, 48, 56, 56, Filter::kBilinear, "731a95de31031c14281d7d5af96ff5eb27a373505e340f16654363808238d571"},
    {31, 90, 28, 112, Filter::kBilinear, "c071548b64805d49ec000635a6b9eb88c85c968a4989d23ddc958b1db2c47d24"},
    {640, 479, 128, 96, Filter::kBicubic, "26dc311c98e09ce7a1d0f5f97efe4719aab417a4f5c0cc8e95968cd84763a083"},
};

TEST(Resize, GivesPillowsBytes) {
  for (const Case& c : kPillow) {
    const Image out = resize(noise(c.from_width, c.from_height), c.width, c.height, c.filter);
    EXPECT_EQ(out.width, c.width);
    EXPECT_EQ(out.height, c.height);
    const std::string_view bytes(reinterpret_cast<const char*>(out.rgb.data()), out.rgb.size());
    EXPECT_EQ(sha256_hex(bytes), c.sha256)
        << c.from_width << " x " << c.from_height << " to " << c.width << " x " << c.height;
  }
}

double kernel(double x) {
  x = std::fabs(x);
  const double a = -0.5;
  if (x < 1.0) return (a + 2.0) * x * x * x - (a + 3.0) * x * x + 1.0;
  if (x < 2.0) return a * x * x * x - 5.0 * a * x * x + 8.0 * a * x - 4.0 * a;
  return 0.0;
}

// The definition, over all source pixels whose centres lie within the widened kernel; no rounding in between.
double defined_value(const Image& image, int32_t width, int32_t height, int32_t x, int32_t y, int channel) {
  const double scale_x = double(image.width) / width, scale_y = double(image.height) / height;
  const double wide_x = std::max(1.0, scale_x), wide_y = std::max(1.0, scale_y);
  double sum = 0.0, weights = 0.0;
  for (int32_t j = 0; j < image.height; ++j) {
    const double wy = kernel((j + 0.5 - (y + 0.5) * scale_y) / wide_y);
    for (int32_t i = 0; wy != 0.0 && i < image.width; ++i) {
      const double w = wy * kernel((i + 0.5 - (x + 0.5) * scale_x) / wide_x);
      weights += w;
      sum += w * image.rgb[static_cast<size_t>((j * image.width + i) * 3 + channel)];
    }
  }
  return sum / weights;
}

// Values between 96 and 159, which the kernel's overshoot keeps within 8 bits: clipping in between is no part of the
// definition.
TEST(Resize, IsTheFilterOfItsDefinition) {
  for (const auto& [from, to] : {std::pair{std::pair{40, 23}, std::pair{17, 31}}, {{13, 50}, {26, 21}}}) {
    Image image = noise(from.first, from.second);
    for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(96 + value / 4);
    const Image out = resize(image, to.first, to.second, Filter::kBicubic);
    for (int32_t y = 0; y < out.height; ++y) {
      for (int32_t x = 0; x < out.width; ++x) {
        const double expected = defined_value(image, out.width, out.height, x, y, (x + y) % 3);
        EXPECT_NEAR(out.rgb[static_cast<size_t>((y * out.width + x) * 3 + (x + y) % 3)], expected, 1.3);
      }
    }
  }
}

TEST(Resize, KeepsOneColour) {
  Image image{.width = 30, .height = 11, .rgb = std::vector<uint8_t>(30 * 11 * 3, 200)};
  for (const Filter filter : {Filter::kBicubic, Filter::kBilinear}) {
    for (const uint8_t value : resize(image, 64, 5, filter).rgb) EXPECT_EQ(value, 200);
  }
}

}  // namespace
}  // namespace tempo9::vision
