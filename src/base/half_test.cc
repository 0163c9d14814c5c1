#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace rlx {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Half, EveryF16SurvivesARoundTrip) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = f16ToF32(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16ToF32(f32ToF16(value)))) << i;
      EXPECT_EQ(f32ToF16(value) & 0x8000, bits & 0x8000) << i;
    } else {
      ASSERT_EQ(f32ToF16(value), bits) << i;
      ASSERT_EQ(f64ToF16(value), bits) << i;
    }
  }
}

TEST(Half, EveryBf16SurvivesARoundTrip) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = bf16ToF32(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16ToF32(f32ToBf16(value)))) << i;
    } else {
      ASSERT_EQ(f32ToBf16(value), bits) << i;
      ASSERT_EQ(f64ToBf16(value), bits) << i;
    }
  }
}

TEST(Half, F16ValuesOfTheStandard) {
  EXPECT_EQ(f16ToF32(0x3c00), 1.0f);
  EXPECT_EQ(f16ToF32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16ToF32(0x03ff), 0x1.ff8p-15f);
  EXPECT_EQ(f16ToF32(0x7bff), 65504.0f);
  EXPECT_EQ(f16ToF32(0xfc00), -kInf);
  EXPECT_TRUE(std::signbit(f16ToF32(0x8000)));
}

// Between each pair of neighbours: the middle goes to the even one, anything beside it to the
// nearer.
template <class ToF32, class FromF32>
void checkRounding(uint16_t largest, ToF32 toF32, FromF32 fromF32) {
  for (uint16_t bits = 0; bits < largest; ++bits) {
    const float low = toF32(bits);
    const float high = toF32(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    const auto upper = static_cast<uint16_t>(bits + 1);
    ASSERT_EQ(fromF32(middle), bits % 2 == 0 ? bits : upper) << bits;
    ASSERT_EQ(fromF32(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(fromF32(std::nextafter(middle, kInf)), upper) << bits;
    ASSERT_EQ(fromF32(-middle), 0x8000 | (bits % 2 == 0 ? bits : upper)) << bits;
  }
}

TEST(Half, RoundsToNearestEven) {
  checkRounding(
      0x7bff, [](uint16_t b) { return f16ToF32(b); }, [](float v) { return f32ToF16(v); });
  checkRounding(
      0x7f7f, [](uint16_t b) { return bf16ToF32(b); }, [](float v) { return f32ToBf16(v); });
}

TEST(Half, OverflowsToInfinity) {
  EXPECT_EQ(f32ToF16(65519.996f), 0x7bff);
  EXPECT_EQ(f32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(f32ToF16(1e30f), 0x7c00);
  EXPECT_EQ(f32ToF16(-kInf), 0xfc00);
  EXPECT_EQ(f32ToBf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f64ToF16(1e300), 0x7c00);
  EXPECT_EQ(f64ToF16(-1e-300), 0x8000);
}

TEST(Half, F64RoundsOnce) {
  // Just above the middle of 1 and the next f16; through f32 it would become the middle itself.
  const double value = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(f64ToF16(value), 0x3c01);
  EXPECT_EQ(f32ToF16(static_cast<float>(value)), 0x3c00);
  EXPECT_EQ(f64ToBf16(1.0 + 0x1p-8 + 0x1p-40), 0x3f81);
}

TEST(Half, KeepsNanWhosePayloadIsInTheLowBits) {
  const float nan = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(f16ToF32(f32ToF16(nan))));
  EXPECT_TRUE(std::isnan(bf16ToF32(f32ToBf16(nan))));
  EXPECT_EQ(f32ToBf16(-nan) >> 15, 1);
}

TEST(Half, ConvertsArrays) {
  const std::vector<float> values = {0.0f, 1.5f, -2.0f, 65504.0f};
  std::vector<uint16_t> narrow(4);
  std::vector<float> back(4);
  f32ToF16(values, narrow);
  f16ToF32(narrow, back);
  EXPECT_EQ(back, values);
  f32ToBf16(std::span(values).first(3), narrow);
  bf16ToF32(std::span<const uint16_t>(narrow).first(3), back);
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace rlx
