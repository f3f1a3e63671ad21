#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "quant/quant.h"

namespace tempo9::quant {
namespace {

// By the definition of the format (spec gguf 4.1), in double.
double f16_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent < 31) return sign * std::ldexp(1024 + mantissa, exponent - 25);
  return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
}

TEST(F16, DecodesAll65536Values) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double expected = f16_value(static_cast<uint16_t>(bits));
    const float got = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else {
      EXPECT_EQ(got, expected) << bits;
      EXPECT_EQ(std::signbit(got), (bits & 0x8000) != 0) << bits;
    }
  }
}

TEST(F16, EncodesWhatItDecodes) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    const uint16_t again = f32_to_f16(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(again))) << bits;
    } else {
      EXPECT_EQ(again, bits);
    }
  }
}

// Between two neighbours lies one point where rounding turns; at it the even one wins.
TEST(F16, RoundsToNearestEvenAtEveryMidpoint) {
  for (uint16_t bits = 0; bits < 0x7C00; ++bits) {
    const uint16_t next = bits + 1;
    const double upper = bits == 0x7BFF ? 65536.0 : f16_value(next);
    const float middle = static_cast<float>((f16_value(bits) + upper) / 2);
    const uint16_t even = bits % 2 == 0 ? bits : next;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(f32_to_f16(middle), even);
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, 1e6f)), next);
    EXPECT_EQ(f32_to_f16(-middle), even | 0x8000);
  }
}

TEST(F16, OverflowsToInfinityAndUnderflowsToZero) {
  EXPECT_EQ(f32_to_f16(1e30f), 0x7C00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(f32_to_f16(1e-30f), 0);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::denorm_min()), 0x8000);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::numeric_limits<float>::signaling_NaN()))));
}

TEST(BF16, EncodesWhatItDecodes) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_f32(static_cast<uint16_t>(bits));
    const uint16_t again = f32_to_bf16(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(again))) << bits;
    } else {
      EXPECT_EQ(again, bits);
    }
  }
}

TEST(BF16, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(0x1.01p0f), 0x3F80);  // half-way: down to even
  EXPECT_EQ(f32_to_bf16(0x1.03p0f), 0x3F82);  // half-way: up to even
  EXPECT_EQ(f32_to_bf16(0x1.0102p0f), 0x3F81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
}

}  // namespace
}  // namespace tempo9::quant
